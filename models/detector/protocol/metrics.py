"""Figures from scores, in numpy alone."""
import numpy as np


def auroc(label, score):
    """Probability that a generated image scores above a real one; ties count half."""
    label, score = np.asarray(label) > 0.5, np.asarray(score, dtype=np.float64)
    positives, negatives = int(label.sum()), int((~label).sum())
    if not positives or not negatives:
        return float("nan")
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((rank[label].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def equal_error(label, score, weight=None):
    """The share of errors at the threshold where as many generated clips are missed as real ones are accused."""
    label, score = np.asarray(label) > 0.5, np.asarray(score, dtype=np.float64)
    weight = np.ones(len(label)) if weight is None else np.asarray(weight, dtype=np.float64)
    values, inverse = np.unique(score, return_inverse=True)
    ai = np.bincount(inverse, weight * label, len(values)) / weight[label].sum()
    real = np.bincount(inverse, weight * ~label, len(values)) / weight[~label].sum()
    missed = np.concatenate([[0.0], np.cumsum(ai)])  # threshold above the first 0, 1, … values
    accused = np.concatenate([[1.0], 1 - np.cumsum(real)])
    at = int(np.argmax(missed >= accused))
    gap = [accused[at - 1] - missed[at - 1], missed[at] - accused[at]]
    part = gap[0] / (gap[0] + gap[1]) if at and gap[0] + gap[1] > 0 else 0.0
    return float(missed[at - 1] + part * (missed[at] - missed[at - 1])) if at else 0.0


def balanced_accuracy(label, score, threshold=0.5):
    label, said = np.asarray(label) > 0.5, np.asarray(score) >= threshold
    return float((said[label].mean() + (~said[~label]).mean()) / 2)


def calibration_bins(label, score, bins=10):
    """[(mean score, share that is generated, count)] of equally wide bins."""
    label, score = np.asarray(label) > 0.5, np.asarray(score)
    at = np.minimum((score * bins).astype(int), bins - 1)
    return [(float(score[at == b].mean()), float(label[at == b].mean()), int((at == b).sum()))
            for b in range(bins) if (at == b).any()]


def calibration_error(label, score, bins=10):
    rows = calibration_bins(label, score, bins)
    total = sum(n for _, _, n in rows)
    return sum(abs(s - y) * n for s, y, n in rows) / total


def by_group(label, score, group):
    """A generated group against all real images, a real one against all generated: {name: (AUROC, count)}."""
    label, score, group = np.asarray(label) > 0.5, np.asarray(score), np.asarray(group)
    out = {}
    for name in sorted(set(group.tolist())):
        mine = group == name
        other = (label != label[mine][0]) if len(set(label[mine].tolist())) == 1 else np.zeros_like(mine)
        keep = mine | other
        out[name] = (auroc(label[keep], score[keep]), int(mine.sum()))
    return out


def source_weights(label, group):
    """Every source counts alike inside its class, the classes alike."""
    label, group = np.asarray(label) > 0.5, np.asarray(group)
    weight = np.zeros(len(label))
    for y in (True, False):
        names = sorted(set(group[label == y].tolist()))
        for name in names:
            mine = (label == y) & (group == name)
            weight[mine] = 1 / (len(names) * mine.sum())
    return weight / weight.sum()

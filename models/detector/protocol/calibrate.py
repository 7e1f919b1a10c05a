"""From logits of crops to a score that means what it says: pooling, a temperature, then a rising table.

Temperature and table are fitted on images that the weights have not seen; every source and both classes count alike. The
product computes the same (src/workers/detector/calibration.ts).
"""
import numpy as np

from protocol import metrics

LOWEST, HIGHEST = 0.02, 0.98  # nothing is certain


def pool(logits, pooling):
    ordered = np.sort(np.asarray(logits, dtype=np.float64))[::-1]
    if pooling["kind"] == "mean":
        return float(ordered.mean())
    if pooling["kind"] == "top_k":
        return float(ordered[: pooling["k"]].mean())
    if pooling["kind"] == "top_fraction":
        return float(ordered[: max(1, int(np.ceil(pooling["fraction"] * len(ordered))))].mean())
    weights = np.exp(pooling["beta"] * (ordered - ordered[0]))
    return float((ordered * weights).sum() / weights.sum())


def sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(np.asarray(x, dtype=np.float64), -500, 500)))


def temperature_of(pooled, label, weight):
    """The divisor with the least weighted log loss, by search over its logarithm."""
    best = (np.inf, 1.0)
    for t in np.exp(np.linspace(np.log(0.1), np.log(20), 160)):
        p = np.clip(sigmoid(pooled / t), 1e-6, 1 - 1e-6)
        best = min(best, (float(-(weight * (label * np.log(p) + (1 - label) * np.log(1 - p))).sum()), float(t)))
    return best[1]


def rising(probability, label, weight, bins=12):
    """[[x, y], …]: bins of equal weight, each drawn a little toward one half, then merged until they rise."""
    order = np.argsort(probability, kind="stable")
    p, y, w = probability[order], label[order], weight[order] / weight.sum()
    which = np.minimum((np.cumsum(w) - w / 2) * bins, bins - 1).astype(int)
    blocks = []
    for b in range(bins):
        mine = which == b
        if not mine.any():
            continue
        mass, images = w[mine].sum(), mine.sum()
        mean = float((w[mine] * y[mine]).sum() / mass)
        blocks.append([mass, float((w[mine] * p[mine]).sum() / mass), (mean * images + 1) / (images + 2)])
        while len(blocks) > 1 and (blocks[-2][2] >= blocks[-1][2] or blocks[-2][1] + 2e-5 >= blocks[-1][1]):
            (m2, x2, y2), (m1, x1, y1) = blocks.pop(), blocks.pop()
            m = m1 + m2
            blocks.append([m, (m1 * x1 + m2 * x2) / m, (m1 * y1 + m2 * y2) / m])
    inner = [[round(x, 5), round(min(max(y, LOWEST), HIGHEST), 4)] for _, x, y in blocks if 0 < round(x, 5) < 1]
    return [[0.0, LOWEST], *inner, [1.0, HIGHEST]]  # sloping ends: a flat one would tie the clearest images


def fitted(pooled, label, source):
    """(temperature, table)."""
    weight = metrics.source_weights(label, source)
    t = temperature_of(pooled, label, weight)
    return round(t, 4), rising(sigmoid(pooled / round(t, 4)), label, weight)


def bounded(table, even, likely, ai):
    """The table with a score that keeps the promises of the tiers: 0.45 at the score `even`, 0.55 at `likely`, 0.85 at `ai`.

    `even`: generated and real images are as many there. `likely`: at most 5 of 100 real images of any kind reach it.
    `ai`: 95 of 100 images that reach it are generated; None: no score reaches the tier.
    """
    known = [(0.0, 0.0), (0.15, 0.15), (even, 0.45), (likely, 0.55), *([(ai, 0.85), (1.0, 1.0)] if ai else [(1.0, 0.8499)])]
    at, to = zip(*known)
    if list(at) != sorted(set(at)):
        raise ValueError(f"the scores of the tiers do not rise: {at}")
    xs, ys = zip(*table)
    knots = {x for x, _ in table} | {round(float(np.interp(a, ys, xs)), 5) for a in at if ys[0] < a < ys[-1]}
    return [[x, round(float(np.interp(np.interp(x, xs, ys), at, to)), 4)] for x in sorted(knots)]


def applied(pooled, temperature, table):
    p = sigmoid(np.asarray(pooled) / temperature)
    return np.interp(p, [x for x, _ in table], [y for _, y in table]) if table else p

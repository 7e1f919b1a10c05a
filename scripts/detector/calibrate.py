"""From logits of crops to a score that means what it says, and the JSON beside the weights.

    python3 scripts/detector/calibrate.py --models models --data DIR

Pooling over crops, a temperature, then a rising table, fitted on sources the weights have not seen, every source and
both classes alike. The product computes the same (src/lib/detection/calibration.ts). Figures made with a table that was
fitted on the same sources would flatter, so `cross_fitted` leaves out each source in turn.
"""
import argparse
import json
import os

import numpy as np

import metrics

POOLINGS = [{"kind": "mean"}, {"kind": "softmax", "beta": 0.15}, {"kind": "softmax", "beta": 0.4},
            {"kind": "top_fraction", "fraction": 0.5}, {"kind": "top_fraction", "fraction": 0.75}, {"kind": "top_k", "k": 3}]
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


def applied(pooled, temperature, table):
    p = sigmoid(np.asarray(pooled) / temperature)
    return np.interp(p, [x for x, _ in table], [y for _, y in table]) if table else p


def folds(label, source, parts=4):
    """Which part each image is left out with: whole sources, of each class in every part where there are enough."""
    label, source = np.asarray(label) > 0.5, np.asarray(source)
    of = {}
    for y in (True, False):
        names, counts = np.unique(source[label == y], return_counts=True)
        for i, n in enumerate(np.argsort(-counts, kind="stable")):
            of[names[n]] = i % parts
    return np.array([of[s] for s in source])


def cross_fitted(pooled, label, source):
    """Calibrated scores, each from a table that has not seen its source."""
    part = folds(label, source)
    out = np.full(len(pooled), np.nan)
    for k in sorted(set(part.tolist())):
        rest = part != k
        if len(set(label[rest].tolist())) < 2:
            rest = np.ones_like(rest)
        t, table = fitted(pooled[rest], label[rest], source[rest])
        out[part == k] = applied(pooled[part == k], t, table)
    return out


def best_pooling(logits, label, source):
    """By the mean over sources of the AUROC; the plain mean unless another is better by half a point."""
    figure = []
    for pooling in POOLINGS:
        pooled = np.array([pool(z, pooling) for z in logits])
        figure.append(float(np.mean([a for a, _ in metrics.by_group(label, pooled, source).values()])))
    best = int(np.argmax(figure))
    return POOLINGS[best if figure[best] > figure[0] + 0.005 else 0], figure


def main():
    import scoring

    p = argparse.ArgumentParser()
    p.add_argument("--models", required=True, help="folder of detector_v*.onnx; the JSON files are written there")
    p.add_argument("--data", nargs="+", required=True, help="folders with index.csv; rows of fold val are used")
    p.add_argument("--version", default="1.1.0")
    p.add_argument("--limit", type=int, default=0)
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    rows = scoring.validation_rows(args.data, args.limit)
    label = np.array([float(r["label"] == "ai") for r in rows])
    source = np.array([r["source"] for r in rows])
    for name, session in scoring.sessions(args.models, args.threads).items():
        logits = scoring.logits_of(rows, {name: session}, scoring.CONDITIONS["clean"])[name]
        pooling, tried = best_pooling(logits, label, source)
        pooled = np.array([pool(z, pooling) for z in logits])
        t, table = fitted(pooled, label, source)
        score = cross_fitted(pooled, label, source)
        figures = {"auroc": round(metrics.auroc(label, pooled), 4), "images": len(rows),
                   "ece_cross_fitted": round(metrics.calibration_error(label, score), 4)}
        made = {"version": args.version, "pooling": pooling, "temperature": t, "isotonic": table, "figures": figures}
        path = os.path.join(args.models, f"{name}.json")
        with open(path + ".tmp", "w") as f:
            json.dump(made, f, indent=2)
            f.write("\n")
        os.replace(path + ".tmp", path)
        print(name, json.dumps(made), "poolings", [round(a, 4) for a in tried], flush=True)


if __name__ == "__main__":
    main()

"""Can the label be told without looking at the picture? AUROC of boosted trees on size, bytes, quantisation, blockiness.

Two ways: five folds of whole pairs (a partner has the same size and the other label, so a pair must not be split; strict,
since it may learn a source by its habits), and fit sources → validation sources.
"""
import io
import os
import tarfile

import numpy as np
from PIL import Image
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict

NAMES = ["width", "height", "bytes", "bytes per pixel", "table sums", "chroma", "blockiness", "strongest grid"]


def blockiness(grey):
    """Mean step across a column, by column phase modulo 8, over the mean of all phases."""
    step = np.abs(2 * grey[:, 1:-1] - grey[:, :-2] - grey[:, 2:]).mean(0)
    phases = np.array([step[p::8].mean() for p in range(8)]) + 1e-3
    return phases / phases.mean()


def features(data):
    image = Image.open(io.BytesIO(data))
    w, h = image.size
    tables = sum(map(sum, image.quantization.values())) if image.format == "JPEG" else 0
    chroma = getattr(image, "layer", [(0, 1, 1, 0)])[0][1]
    grey = np.asarray(image.convert("L")).astype(np.float32)
    across, down = blockiness(grey), blockiness(grey.T)
    own = (across[6] + across[7] + down[6] + down[7]) / 4
    return [w, h, len(data), len(data) / (w * h), tables, chroma, own, (across.max() + down.max()) / 2]


def stored(folder, rows):
    """Bytes of the rows, in order, from the folder or the tars in it."""
    inside = {}
    for tar in sorted(n for n in os.listdir(folder) if n.endswith(".tar")):
        with tarfile.open(os.path.join(folder, tar)) as archive:
            inside |= {m.name: archive.extractfile(m).read() for m in archive}
    for row in rows:
        if row["file"] in inside:
            yield inside[row["file"]]
        else:
            with open(os.path.join(folder, row["file"]), "rb") as f:
                yield f.read()


def auroc(x, y, pairs):
    model = HistGradientBoostingClassifier(max_iter=80, max_leaf_nodes=8, l2_regularization=1.0, random_state=0)
    folds = GroupKFold(5, shuffle=True, random_state=0)
    scores = cross_val_predict(model, x, y, cv=folds, groups=pairs, method="predict_proba")
    return roc_auc_score(y, scores[:, 1])


def probe(folder, rows):
    x = np.array([features(data) for data in stored(folder, rows)])
    y = np.array([r["label"] == "ai" for r in rows]).astype(int)
    pairs = np.unique([r["pair"] for r in rows], return_inverse=True)[1]
    lines = [f"{len(y)} images, {y.sum()} generated",
             f"size, bytes, tables: {auroc(x[:, :6], y, pairs):.3f}",
             f"and blockiness: {auroc(x, y, pairs):.3f}"]
    lines += [f"  {name} alone: {roc_auc_score(y, x[:, i]):.3f}" for i, name in enumerate(NAMES)]
    fit = np.array([r["fold"] == "fit" for r in rows])
    if fit.any() and not fit.all():
        model = HistGradientBoostingClassifier(max_iter=80, max_leaf_nodes=8, random_state=0).fit(x[fit], y[fit])
        lines.insert(3, f"fit → validation sources: {roc_auc_score(y[~fit], model.predict_proba(x[~fit])[:, 1]):.3f}")
    return "\n".join(lines)

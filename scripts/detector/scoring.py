"""Runs the ONNX weights over folders of images, as the product does, after an optional re-encoding."""
import os
import random

import numpy as np
import onnxruntime
import packs
import views
from conditions import CONDITIONS, SWAPS  # noqa: F401, for the scripts that score


def validation_rows(folders, limit=0, fold="val"):
    rows = [r for folder in folders for r in packs.listed(folder) if r.get("fold") == fold]
    if not rows:
        raise SystemExit(f"no rows of fold {fold} in {', '.join(folders)}")
    if limit:
        random.Random(3).shuffle(rows)
        rows = rows[:limit]
    return rows


def sessions(folder, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    names = sorted(n[:-5] for n in os.listdir(folder) if n.startswith("detector_v") and n.endswith(".onnx"))
    if not names:
        raise SystemExit(f"no detector_v*.onnx in {folder}")
    return {n: onnxruntime.InferenceSession(os.path.join(folder, f"{n}.onnx"), options) for n in names}


def whole_session(folder, threads):
    """The network for whole images, or nothing."""
    path = os.path.join(folder, "detector_whole.onnx")
    if not os.path.exists(path):
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options)


def logits_of(rows, models, change):
    """{model: [logits of the crops of each image]}"""
    out = {name: [] for name in models}
    for row in rows:
        crops = views.cut_crops(change(packs.opened((*row["at"], 0))))
        for name, session in models.items():
            out[name].append(session.run(None, {"pixels": crops})[0])
    return out

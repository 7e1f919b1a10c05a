"""Runs the ONNX weights over folders of images, as the product does, after an optional re-encoding."""
import io
import os
import random

import numpy as np
import onnxruntime
from PIL import Image

import packs
import views


def again(pixels, kind, **options):
    """Through an encoder and back."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
    return packs.decoded(out.getvalue())


def halved(pixels):
    h, w = pixels.shape[:2]
    return np.asarray(Image.fromarray(pixels).resize((max(1, w // 2), max(1, h // 2)), Image.LANCZOS))


CONDITIONS = {
    "clean": lambda x: x,
    "jpeg 60": lambda x: again(x, "JPEG", quality=60),
    "half size": halved,
    "webp 70": lambda x: again(x, "WEBP", quality=70),
}
# The same pictures through two encoders: a detector of encoders would tell these apart.
SWAPS = {
    "jpeg 4:2:0": lambda x: again(x, "JPEG", quality=85, subsampling=2),
    "jpeg 4:4:4": lambda x: again(x, "JPEG", quality=85, subsampling=0),
    "webp": lambda x: again(x, "WEBP", quality=88),
}


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


def logits_of(rows, models, change):
    """{model: [logits of the crops of each image]}"""
    out = {name: [] for name in models}
    for row in rows:
        crops = views.cut_crops(change(packs.opened((*row["at"], 0))))
        for name, session in models.items():
            out[name].append(session.run(None, {"pixels": crops})[0])
    return out

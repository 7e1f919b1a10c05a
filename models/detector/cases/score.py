"""Writes score.json: what the committed weights say of images that anybody can compute, for the product's tests.

    python3 models/detector/cases/score.py --models models

An image is made of whole numbers alone: blocks of `step` pixels of one colour and grain over them. Those with a `file`
were also saved, for the product to decode; they lie in test/fixtures/images.
"""
import argparse
import json
import os
import sys

import numpy as np
import onnx
import onnxruntime
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))  # the folders beside this one
from images.pixels import decoded
from networks import views, whole_view
from protocol import calibrate, policy

IMAGES = os.path.join(HERE, "../../../test/fixtures/images")
# width, height, step, grain
CASES = [(640, 480, 1, 1), (300, 260, 16, 2), (257, 400, 24, 3), (512, 512, 8, 2), (800, 600, 40, 4), (1024, 1024, 64, 2),
         (200, 180, 10, 6), (96, 700, 5, 9), (448, 448, 2, 2), (352, 352, 3, 1), (1000, 300, 90, 30), (640, 640, 32, 1)]
SAVED = {"blocks_420.jpg": ((300, 260, 20, 3), "JPEG", {"quality": 85, "subsampling": 2}),
         "blocks_444.jpg": ((260, 300, 12, 2), "JPEG", {"quality": 92, "subsampling": 0}),
         "blocks.webp": ((320, 280, 28, 4), "WEBP", {"quality": 80})}


def mixed(x, y, c, seed):
    """A number of 32 bits for each place, by multiplication and exclusive or."""
    h = (x * np.uint32(73856093)) ^ (y * np.uint32(19349663)) ^ ((c + np.uint32(seed)) * np.uint32(83492791))
    return ((h ^ (h >> np.uint32(15))) * np.uint32(2246822519)) >> np.uint32(16)


def made(width, height, step, grain):
    y, x, c = (a.astype(np.uint32) for a in np.ogrid[:height, :width, :3])
    coarse, fine = mixed(x // np.uint32(step), y // np.uint32(step), c, 1), mixed(x, y, c, 9)
    return (40 + coarse % np.uint32(160) + fine % np.uint32(grain)).astype(np.uint8)


def session(folder, name):
    """The network of that name, which also gives what its last layer reads; None without its file."""
    path = os.path.join(folder, f"{name}.onnx")
    if not os.path.exists(path):
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.x64quantprecision", "1")  # as the product does
    network = onnx.load(path)
    last = [node for node in network.graph.node if node.op_type == "Gemm"][-1]
    network.graph.output.append(onnx.helper.make_tensor_value_info(last.input[0], onnx.TensorProto.FLOAT, None))
    return onnxruntime.InferenceSession(network.SerializeToString(), options)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--models", required=True)
    args = p.parse_args()
    names = sorted(n[:-5] for n in os.listdir(args.models) if n.startswith("detector_v") and n.endswith(".onnx"))
    if not names:
        raise SystemExit(f"no detector_v*.onnx in {args.models}")
    models = {name: session(args.models, name) for name in names}
    whole = session(args.models, "detector_whole")
    tables = {}
    for name in models:
        with open(os.path.join(args.models, f"{name}.json")) as f:
            tables[name] = json.load(f)

    def scores(pixels):
        crops, out = views.cut_crops(pixels), {}
        for name, session in models.items():
            table = tables[name]
            logits, features = session.run(None, {"pixels": crops})
            pooled = calibrate.pool(logits, table["pooling"])
            mix = table.get("whole")
            if mix:
                seen = float(whole.run(None, {"pixels": whole_view.small(pixels)[None]})[0][0])
                pooled = mix["crops"] * pooled + mix["whole"] * seen + mix["bias"]
            if "kinds" in table:
                score = policy.applied(table, np.array([pooled]), features.astype(np.float64).mean(0, keepdims=True))[0][0]
            else:
                score = calibrate.applied(pooled, table["temperature"], table["isotonic"])
            out[name] = round(float(score), 5)
        return out

    cases = [{**dict(zip(("width", "height", "step", "grain"), case)), "scores": scores(made(*case))} for case in CASES]
    os.makedirs(IMAGES, exist_ok=True)
    for name, (case, kind, options) in SAVED.items():
        path = os.path.join(IMAGES, name)
        if not os.path.exists(path):
            Image.fromarray(made(*case)).save(path, kind, **options)
        cases.append({"file": name, "scores": scores(decoded(path))})
    with open(os.path.join(HERE, "score.json"), "w") as f:
        json.dump(cases, f, indent=2)
        f.write("\n")


if __name__ == "__main__":
    main()

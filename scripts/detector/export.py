"""Weights of train.py → ONNX, with the weights stored in half precision, checked against PyTorch.

    python3 scripts/detector/export.py --weights DIR --out models
"""
import argparse
import hashlib
import inspect
import os
import time

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

import model

DETECTORS = {"detector_v0": (model.HalfWide, "half.pt"), "detector_v1": (model.Wide, "wide.pt")}
OPSET = 17
LARGE = 4096  # numbers; smaller tensors, among them the fixed filters, stay as they are


def exported(net, path, side=256):
    example = torch.randint(0, 256, (2, side, side, 3), dtype=torch.uint8)
    older = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    torch.onnx.export(net, (example,), path, opset_version=OPSET, input_names=["pixels"], output_names=["logits"],
                      dynamic_axes={"pixels": {0: "crops"}, "logits": {0: "crops"}}, **older)


def in_halves(path):
    """Large initialisers become float16 with a cast behind them, which the runtime folds away when it loads."""
    graph = (loaded := onnx.load(path)).graph
    for tensor in list(graph.initializer):
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size <= LARGE:
            continue
        name = tensor.name
        graph.initializer.remove(tensor)
        graph.initializer.append(numpy_helper.from_array(values.astype(np.float16), name + "_half"))
        graph.node.insert(0, helper.make_node("Cast", [name + "_half"], [name], to=TensorProto.FLOAT))
    loaded.doc_string, loaded.producer_name = "", "verk"
    onnx.checker.check_model(loaded)
    onnx.save(loaded, path)


def compared(net, path):
    """(largest difference of a logit, milliseconds a crop on one thread)."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    rng = np.random.default_rng(5)
    smooth = rng.integers(0, 256, (12, 16, 16, 3)).repeat(16, 1).repeat(16, 2)
    pixels = np.clip(smooth + rng.normal(0, 4, (12, 256, 256, 3)), 0, 255).astype(np.uint8)
    with torch.no_grad():
        expected = net(torch.from_numpy(pixels)).numpy()
    worst = float(np.abs(session.run(None, {"pixels": pixels})[0] - expected).max())
    times = []
    for _ in range(21):
        begun = time.perf_counter()
        session.run(None, {"pixels": pixels[:2]})
        times.append(time.perf_counter() - begun)
    return worst, 1000 * float(np.median(times)) / 2


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--weights", required=True)
    p.add_argument("--out", required=True)
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    for name, (build, weights) in DETECTORS.items():
        path, net = os.path.join(args.out, f"{name}.onnx"), build().eval()
        net.load_state_dict(torch.load(os.path.join(args.weights, weights), map_location="cpu", weights_only=True))
        exported(net, path + ".tmp")
        in_halves(path + ".tmp")
        worst, milliseconds = compared(net, path + ".tmp")
        if worst > 0.05:
            raise SystemExit(f"{name}: the exported weights differ by {worst:.3f} from the trained ones")
        os.replace(path + ".tmp", path)
        with open(path, "rb") as f:
            body = f.read()
        print(f"{name}: {len(body)} bytes, sha256 {hashlib.sha256(body).hexdigest()}, differs by at most {worst:.4f}, "
              f"{model.multiply_adds(net) / 1e6:.0f} million multiply-adds and {milliseconds:.1f} ms a crop", flush=True)


if __name__ == "__main__":
    main()

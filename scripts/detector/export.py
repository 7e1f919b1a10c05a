"""Trained networks → ONNX files with small weights: crops' networks in half precision, the whole image's in bytes.

Where ONNX Runtime is installed, each file is compared with its network in PyTorch.
"""
import hashlib
import inspect
import os

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

import model
import whole
import whole_view
from train_crops import NETWORKS

OPSET = 17
LARGE = 4096  # numbers; smaller tensors, among them the fixed filters, stay as they are
WORST = {"halves": 0.05, "bytes": 0.2}  # largest difference of a logit


def exported(net, path, side):
    example = torch.randint(0, 256, (2, side, side, 3), dtype=torch.uint8)
    older = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    torch.onnx.export(net, (example,), path, opset_version=OPSET, input_names=["pixels"], output_names=["logits"],
                      dynamic_axes={"pixels": {0: "crops"}, "logits": {0: "crops"}}, **older)


def with_small_weights(path, stored):
    """`stored(name, values)` gives the initialisers and nodes that make the large tensor `name` when the runtime loads the file."""
    graph = (loaded := onnx.load(path)).graph
    for tensor in list(graph.initializer):
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size <= LARGE:
            continue
        graph.initializer.remove(tensor)
        initializers, nodes = stored(tensor.name, values)
        graph.initializer.extend(numpy_helper.from_array(each, name) for name, each in initializers.items())
        for i, node in enumerate(nodes):
            graph.node.insert(i, node)
    loaded.doc_string, loaded.producer_name = "", "verk"
    onnx.checker.check_model(loaded)
    onnx.save(loaded, path)


def in_halves(path):
    """Large initialisers become float16 with a cast behind them."""
    with_small_weights(path, lambda name, values: (
        {name + "_half": values.astype(np.float16)}, [helper.make_node("Cast", [name + "_half"], [name], to=TensorProto.FLOAT)]))


def in_bytes(path):
    """Large initialisers become int8 with a scale for each output channel."""
    def stored(name, values):
        scale = (np.abs(values).max(tuple(range(1, values.ndim)), keepdims=True) / 127).clip(min=1e-12).astype(np.float32)
        return ({name + "_bytes": np.round(values / scale).astype(np.int8), name + "_scale": scale},
                [helper.make_node("Cast", [name + "_bytes"], [name + "_whole"], to=TensorProto.FLOAT),
                 helper.make_node("Mul", [name + "_whole", name + "_scale"], [name])])

    with_small_weights(path, stored)


def difference(net, path, side):
    """The largest difference of a logit between the file and the network; None without ONNX Runtime."""
    try:
        import onnxruntime
    except ImportError:
        return None
    rng = np.random.default_rng(5)
    smooth = rng.integers(0, 256, (12, side // 16, side // 16, 3)).repeat(16, 1).repeat(16, 2)
    pixels = np.clip(smooth + rng.normal(0, 4, smooth.shape), 0, 255).astype(np.uint8)
    with torch.no_grad():
        expected = net(torch.from_numpy(pixels)).numpy()
    return float(np.abs(onnxruntime.InferenceSession(path).run(None, {"pixels": pixels})[0] - expected).max())


def written(net, path, side, kind):
    exported(net, path + ".tmp", side)
    {"halves": in_halves, "bytes": in_bytes}[kind](path + ".tmp")
    apart = difference(net, path + ".tmp", side)
    if apart is not None and apart > WORST[kind]:
        raise SystemExit(f"{path}: the exported weights change a logit by {apart:.3f}")
    os.replace(path + ".tmp", path)
    with open(path, "rb") as f:
        body = f.read()
    print(f"{os.path.basename(path)}: {len(body)} bytes, sha256 {hashlib.sha256(body).hexdigest()}, "
          f"{model.multiply_adds(net, side) / 1e6:.0f} million multiply-adds, "
          f"{'not compared: ONNX Runtime is not installed' if apart is None else f'differs by at most {apart:.4f}'}", flush=True)


def networks(trained, folder, detectors, whole_name):
    """Files of the networks in the folder `trained`. detectors: {network: file name}; whole_name: which network for the whole image, if any."""
    states = torch.load(os.path.join(trained, "weights.pt"), map_location="cpu")
    for name, file in detectors.items():
        net = NETWORKS[name]().eval()
        net.load_state_dict(states[name])
        written(net, os.path.join(folder, f"{file}.onnx"), 256, "halves")
    if whole_name:
        net = whole.Whole().eval()
        state = torch.load(os.path.join(trained, "whole.pt"), map_location="cpu")[whole_name]
        net.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in state.items()})
        written(net, os.path.join(folder, "detector_whole.onnx"), whole_view.SIDE, "bytes")

"""Weights to ship → ONNX, compared with PyTorch: crops' networks in half precision, the whole image's in bytes with a scale a channel."""
import os

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

import export
import train
import whole

LARGE = 4096


def in_bytes(path):
    """Large initialisers become int8 with a scale for each output channel; the runtime computes them once when it loads."""
    graph = (loaded := onnx.load(path)).graph
    for tensor in list(graph.initializer):
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size <= LARGE:
            continue
        axes = tuple(range(1, values.ndim))
        scale = (np.abs(values).max(axes, keepdims=True) / 127).clip(min=1e-12).astype(np.float32)
        name = tensor.name
        graph.initializer.remove(tensor)
        graph.initializer.append(numpy_helper.from_array(np.round(values / scale).astype(np.int8), name + "_bytes"))
        graph.initializer.append(numpy_helper.from_array(scale, name + "_scale"))
        graph.node.insert(0, helper.make_node("Cast", [name + "_bytes"], [name + "_whole"], to=TensorProto.FLOAT))
        graph.node.insert(1, helper.make_node("Mul", [name + "_whole", name + "_scale"], [name]))
    loaded.doc_string, loaded.producer_name = "", "verk"
    onnx.checker.check_model(loaded)
    onnx.save(loaded, path)


def networks(trained, folder, detectors, with_whole):
    states = torch.load(os.path.join(trained, "weights.pt"), map_location="cpu")
    for name, file in detectors.items():
        net = train.NETWORKS[name]().eval()
        net.load_state_dict(states[name])
        written(net, os.path.join(folder, f"{file}.onnx"), 256, export.in_halves)
    if with_whole:
        net = whole.Whole().eval()
        state = torch.load(os.path.join(trained, "whole.pt"), map_location="cpu")
        net.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in state.items()})
        written(net, os.path.join(folder, "detector_whole.onnx"), 128, in_bytes)


def written(net, path, side, made_small):
    export.exported(net, path + ".tmp", side)
    made_small(path + ".tmp")
    os.replace(path + ".tmp", path)
    print(f"{os.path.basename(path)}: {os.path.getsize(path)} bytes", flush=True)

"""Trained networks → ONNX files that compute in whole numbers (whole_numbers.py), with the ranges that some packed images give.

    python3 models/detector/networks/export.py --trained OUT/final --images PACKS --models DIR --detectors half=detector_v0 --whole late

Without images the files compute in float, and only store small weights: crops' networks in half precision, the whole image's in
bytes. Where ONNX Runtime is installed, each file is compared with its network in PyTorch.
"""
import argparse
import hashlib
import inspect
import io
import os
import sys
import tarfile

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the folders beside this one
from networks import model, views, whole, whole_view
from networks.train_crops import NETWORKS

OPSET = 17
LARGE = 4096  # numbers; smaller tensors, among them the fixed filters, stay as they are
WORST = {"halves": 0.05, "bytes": 0.2, "numbers": 0.25}  # largest difference of a logit; for whole numbers the mean difference
IMAGES = 256  # that ranges are taken from


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


def packed(folder, prefix, side):
    """(N, side, side, 3): the middles of IMAGES regions, or as many whole images, spread evenly over the packs."""
    packs = sorted(n for n in os.listdir(folder) if n.startswith(prefix) and n.endswith(".tar"))
    if not packs:
        raise SystemExit(f"{folder} has no {prefix}*.tar")
    out, each = [], -(-IMAGES // len(packs))
    for name in packs:
        with tarfile.open(os.path.join(folder, name)) as tar:
            members = tar.getmembers()
            for member in members[:: max(1, len(members) // each)][:each]:
                out.append(fitted(Image.open(io.BytesIO(tar.extractfile(member).read())).convert("RGB"), side))
    return np.stack(out)


def fitted(image, side):
    """The middle square of `side` pixels; smaller images are enlarged first."""
    width, height = (max(side, n) for n in image.size)
    image = image if image.size == (width, height) else image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - side) // 2, (height - side) // 2
    return np.asarray(image.crop((left, top, left + side, top + side)))


def in_numbers(path, pixels):
    from networks import whole_numbers

    off = np.abs(whole_numbers.in_whole_numbers(path, pixels))
    if off.mean() > WORST["numbers"]:
        raise SystemExit(f"{path}: whole numbers change a logit by {off.mean():.3f} on average")
    return f"whole numbers change a logit by {off.mean():.3f} on average, {off.max():.3f} at most"


def in_float(net, path, side, kind):
    {"halves": in_halves, "bytes": in_bytes}[kind](path)
    apart = difference(net, path, side)
    if apart is not None and apart > WORST[kind]:
        raise SystemExit(f"{path}: the exported weights change a logit by {apart:.3f}")
    return "not compared: ONNX Runtime is not installed" if apart is None else f"differs by at most {apart:.4f}"


def written(net, path, side, kind, pixels):
    exported(net, path + ".tmp", side)
    compared = in_float(net, path + ".tmp", side, kind) if pixels is None else in_numbers(path + ".tmp", pixels)
    os.replace(path + ".tmp", path)
    with open(path, "rb") as f:
        body = f.read()
    print(f"{os.path.basename(path)}: {len(body)} bytes, sha256 {hashlib.sha256(body).hexdigest()}, "
          f"{model.multiply_adds(net, side) / 1e6:.0f} million multiply-adds, {compared}", flush=True)


def networks(trained, folder, detectors, whole_name, images=None):
    """Files of the networks in the folder `trained`.

    detectors: {network: file name}; whole_name: which network for the whole image, if any; images: a folder of packs.
    """
    states = torch.load(os.path.join(trained, "weights.pt"), map_location="cpu")
    pixels = packed(images, "crops_", views.CROP) if images else None
    for name, file in detectors.items():
        net = NETWORKS[name]().eval()
        net.load_state_dict(states[name])
        written(net, os.path.join(folder, f"{file}.onnx"), views.CROP, "halves", pixels)
    if whole_name:
        net = whole.Whole().eval()
        state = torch.load(os.path.join(trained, "whole.pt"), map_location="cpu")[whole_name]
        net.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in state.items()})
        pixels = packed(images, "thumbs_", whole_view.SIDE) if images else None
        written(net, os.path.join(folder, "detector_whole.onnx"), whole_view.SIDE, "bytes", pixels)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--trained", required=True, help="folder with weights.pt and whole.pt")
    p.add_argument("--models", required=True, help="folder to write to")
    p.add_argument("--images", help="folder with crops_*.tar and thumbs_*.tar")
    p.add_argument("--detectors", nargs="*", default=["half=detector_v0", "wide=detector_v1"], help="network=file")
    p.add_argument("--whole", help="which network of whole.pt")
    args = p.parse_args()
    os.makedirs(args.models, exist_ok=True)
    networks(args.trained, args.models, dict(d.split("=") for d in args.detectors), args.whole, args.images)


if __name__ == "__main__":
    main()

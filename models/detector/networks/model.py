"""The networks: crops of 256 × 256 in, one logit a crop out.

They see not the picture but what is left of it when its smooth part is taken away, since that is what carries over to
generators that training has not seen.
  Wide      learned high-pass filters beside the local spectrum, logarithms of 8 × 8 DCT magnitudes: detector_v1.
  HalfWide  the same on the crop made half as large, so that it costs a quarter: detector_v0.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

SQUARE = [[-1, 2, -1], [2, -4, 2], [-1, 2, -1]]
ACROSS = [[0, 0, 0], [0, -1, 1], [0, 0, 0]]
DOWN = [[0, 0, 0], [0, -1, 0], [0, 1, 0]]
LINE_ACROSS = [[0, 0, 0], [-1, 2, -1], [0, 0, 0]]
LINE_DOWN = [[0, -1, 0], [0, 2, 0], [0, -1, 0]]
CROSS = [[1, -1, 0], [-1, 1, 0], [0, 0, 0]]
LUMA = (0.299, 0.587, 0.114)


def bank():
    """(16, 3, 3, 3): high-pass filters over colours, to begin with. Sixteen, since the runtime counts channels by sixteens."""
    red, green, blue = (1, 0, 0), (0, 1, 0), (0, 0, 1)
    chosen = [(colour, kernel, divisor) for colour in (red, green, blue)
              for kernel, divisor in ((ACROSS, 1), (DOWN, 1), (SQUARE, 4))]
    chosen += [((1, -1, 0), SQUARE, 4), ((0, -1, 1), SQUARE, 4), (LUMA, LINE_ACROSS, 2), (LUMA, LINE_DOWN, 2),
               (LUMA, CROSS, 1), ((1, -1, 0), ACROSS, 1), ((0, -1, 1), DOWN, 1)]
    return torch.stack([torch.tensor(colour, dtype=torch.float32).view(3, 1, 1) * torch.tensor(kernel) / divisor
                        for colour, kernel, divisor in chosen])


def conv(cin, cout, k=3, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(cout))


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1, groups=1):
        super().__init__()
        self.one = conv(cin, cout, 3, stride)
        self.two = conv(cout, cout, 3, 1, groups)
        self.skip = nn.Identity() if cin == cout and stride == 1 else nn.Sequential(
            *([nn.AvgPool2d(stride)] if stride > 1 else []), conv(cin, cout, 1))

    def forward(self, x):
        return F.relu(self.two(F.relu(self.one(x))) + self.skip(x))


def statistics(x):
    """Mean and spread over the map: a fingerprint is where it is everywhere, an odd patch where it is somewhere."""
    mean = x.mean((2, 3))
    return torch.cat([mean, ((x - mean[:, :, None, None]) ** 2).mean((2, 3)).add(1e-4).sqrt()], 1)


class Spectrum(nn.Module):
    """(N, 3, H, W) → (N, 64, H/8, W/8): log magnitudes of the 8 × 8 DCTs of green, the sharpest colour."""

    channels = 64

    def __init__(self):
        super().__init__()
        self.register_buffer("waves", cosines(8)[:, None], persistent=False)

    def forward(self, x):
        # Small coefficients are differences of large sums: half precision would drown them.
        with torch.autocast(x.device.type, enabled=False):
            return torch.log(F.conv2d(x[:, 1:2].float() - 128, self.waves, stride=8).abs() + 0.5)


def cosines(n):
    """The n × n orthonormal DCT as n² filters, (n², n, n)."""
    k = torch.arange(n, dtype=torch.float32)
    d = torch.cos((2 * k[None] + 1) * k[:, None] * math.pi / (2 * n)) * math.sqrt(2 / n)
    d[0] *= math.sqrt(0.5)
    return torch.einsum("ai,bj->abij", d, d).reshape(n * n, n, n)


class HighPass(nn.Module):
    """Learned filters of which every colour's weights sum to zero: they cannot see brightness, only its changes.

    They begin as those of `bank` and as the same two pixels wide; clipped at ±limit levels, to ±1.
    """

    def __init__(self, limit, stride=2):
        super().__init__()
        near, far = torch.zeros(16, 3, 5, 5), torch.zeros(16, 3, 5, 5)
        near[:, :, 1:4, 1:4], far[:, :, ::2, ::2] = bank(), bank()
        self.weight = nn.Parameter(torch.cat([near, far]) + 0.02 * torch.randn(32, 3, 5, 5))
        self.stride, self.limit = stride, limit

    def forward(self, x):
        with torch.autocast(x.device.type, enabled=False):
            weight = (self.weight - self.weight.mean((2, 3), keepdim=True)) / self.limit
            return F.conv2d(x.float() - 128, weight, stride=self.stride, padding=2).clamp(-1, 1)


class Wide(nn.Module):
    """detector_v1."""

    def __init__(self, limit=2.0, drop=0.2):
        super().__init__()
        self.spectrum = Spectrum()
        self.near = nn.Sequential(HighPass(limit), conv(32, 32, 3, 2), nn.ReLU(), Block(32, 64, 2))
        self.far = nn.Sequential(conv(64, 64, 1), nn.ReLU(), conv(64, 64, 1), nn.ReLU())
        self.body = nn.Sequential(Block(128, 128, 2), Block(128, 192, 2))
        self.head = nn.Sequential(nn.Dropout(drop), nn.Linear(384, 1))

    def features(self, pixels):
        """(N, 384): what the last layer reads."""
        x = pixels.permute(0, 3, 1, 2).float()
        return statistics(self.body(torch.cat([self.near(x), self.far(self.spectrum(x))], 1)))

    def forward(self, pixels):
        return self.head(self.features(pixels))[:, 0]


class HalfWide(Wide):
    """detector_v0: on means of 2 × 2 pixels, in whole levels as every picture has."""

    def features(self, pixels):
        x = F.avg_pool2d(pixels.permute(0, 3, 1, 2).float(), 2)
        return super().features(torch.floor(x + 0.5).permute(0, 2, 3, 1))


def multiply_adds(model, size=256):
    total = []
    def count(m, _, out):
        if isinstance(m, nn.Conv2d):
            total.append(out[0].numel() * m.weight[0].numel())
        elif isinstance(m, nn.Linear):
            total.append(m.weight.numel())
        elif isinstance(m, HighPass):
            total.append(out[0].numel() * m.weight[0].numel())
        elif isinstance(m, Spectrum):
            total.append(out[0].numel() * 64)
    hooks = [m.register_forward_hook(count) for m in model.modules()]
    model.eval()(torch.zeros(1, size, size, 3, dtype=torch.uint8))
    for h in hooks:
        h.remove()
    return sum(total)

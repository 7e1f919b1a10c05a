"""Training views, on the GPU: both classes go through the same draw, so nothing here tells them apart.

A view: a window of a region, flipped or turned, resampled (mostly made smaller, by one of five kernels; blur is part of
the same matrices), colour, noise, JPEG or WebP at a random grid phase, cut to `size` and rounded to bytes.
Numbers of images that are encoded in one way are the same in every batch, so that every shape is known beforehand.
"""
import contextlib
import math

import torch
import torch.nn.functional as F

MARGIN = 16  # pixels around the view, so that the JPEG grid can lie anywhere

LUMA = [16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29,
        51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121,
        120, 101, 72, 92, 95, 98, 112, 100, 103, 99]
CHROMA = [17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99,
          99, 99, 99, 99] + [99] * 32
TO_YCC = [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]]
TO_RGB = [[1, 0, 1.402], [1, -0.344136, -0.714136], [1, 1.772, 0]]


def dct_matrix(n, device):
    k = torch.arange(n, dtype=torch.float32)
    d = torch.cos((2 * k[None] + 1) * k[:, None] * math.pi / (2 * n)) * math.sqrt(2 / n)
    d[0] *= math.sqrt(0.5)
    return d.to(device)


def tables(quality, device):
    """libjpeg's scaling of the standard tables. quality: (B,) → (B, 3, 8, 8)."""
    scale = torch.where(quality < 50, 5000 / quality, 200 - 2 * quality).view(-1, 1, 1, 1)
    standard = torch.tensor([LUMA, CHROMA, CHROMA], dtype=torch.float32, device=device).view(1, 3, 8, 8)
    return ((standard * scale + 50) / 100).floor().clamp(1, 255)


def quantise(plane, table):
    """plane (B, H, W) around zero, H and W multiples of n; table (B, n, n). All blocks at once: one large product each way."""
    (b, h, w), n = plane.shape, table.shape[-1]
    d = dct_matrix(n, plane.device)
    both = torch.einsum("ai,bj->abij", d, d).reshape(n * n, n * n)
    blocks = plane.view(b, h // n, n, w // n, n).permute(0, 1, 3, 2, 4).reshape(b, -1, n * n)
    q = table.reshape(b, 1, n * n)
    back = (torch.round(blocks @ both.T / q) * q) @ both
    return back.view(b, h // n, w // n, n, n).permute(0, 1, 3, 2, 4).reshape(b, h, w)


def in_planes(x, halved, luma, chroma):
    """x (B, 3, H, W) in 0..255, H and W multiples of 16, through `luma` and `chroma` in YCbCr; halved: 4:2:0."""
    ycc = torch.einsum("dc,bchw->bdhw", torch.tensor(TO_YCC, device=x.device), x.round()).round()
    planes = [(luma(ycc[:, 0] - 128) + 128).round().clamp(0, 255)]
    for c in (1, 2):
        if halved:
            small = chroma(F.avg_pool2d(ycc[:, c, None], 2)[:, 0])
            planes.append(F.interpolate(small[:, None], scale_factor=2, mode="bilinear", align_corners=False)[:, 0].round())
        else:
            planes.append(chroma(ycc[:, c]).round())
    out = torch.einsum("dc,bchw->bdhw", torch.tensor(TO_RGB, dtype=torch.float32, device=x.device), torch.stack(planes, 1))
    return out.round().clamp(0, 255)


def jpeg(x, quality, halved):
    table = tables(quality, x.device)
    return in_planes(x, halved, lambda y: quantise(y, table[:, 0]), lambda c: quantise(c, table[:, 1]))


def webp_like(x, quality):
    """What lossy WebP leaves, roughly: flat quantisation of 4 × 4 blocks, then small steps between blocks smoothed."""
    step = (2 + (100 - quality) * 0.32).view(-1, 1, 1)
    table = step * torch.ones(1, 4, 4, device=x.device)
    table[:, 0, 0] *= 0.6

    def coded(plane):
        return smoothed(smoothed(quantise(plane, table), step).mT, step).mT

    return in_planes(x, True, coded, coded)


def smoothed(plane, step):
    """Across the borders of columns of 4 pixels, where the jump is no larger than the quantiser could have made it."""
    b, h, w = plane.shape
    left, right = plane[:, :, 3:-1:4], plane[:, :, 4::4]  # (B, H, W/4 - 1)
    jump = right - left
    move = torch.where(jump.abs() < 2 * step, jump * 0.35, torch.zeros_like(jump))
    out = plane.clone()
    out[:, :, 3:-1:4] += move
    out[:, :, 4::4] -= move
    return out


def kernel_value(t, kind):
    """Resampling kernels by number: 0 box, 1 triangle, 2 Catmull-Rom, 3 Lanczos 3, 4 Mitchell."""
    a = t.abs()
    box = (a <= 0.5).float()
    triangle = (1 - a).clamp(min=0)
    catmull = torch.where(a < 1, 1.5 * a**3 - 2.5 * a**2 + 1,
                          torch.where(a < 2, -0.5 * a**3 + 2.5 * a**2 - 4 * a + 2, torch.zeros_like(a)))
    lanczos = torch.where(a < 3, torch.sinc(t) * torch.sinc(t / 3), torch.zeros_like(a))
    mitchell = torch.where(a < 1, (7 * a**3 - 12 * a**2 + 16 / 3) / 6,
                           torch.where(a < 2, (-7 / 3 * a**3 + 12 * a**2 - 20 * a + 32 / 3) / 6, torch.zeros_like(a)))
    out = torch.where(kind == 0, box, triangle)
    for number, value in ((2, catmull), (3, lanczos), (4, mitchell)):
        out = torch.where(kind == number, value, out)
    return out


def resampling(out_size, in_size, scale, kind, sharp_edge):
    """(B, out, in). sharp_edge: the kernel is not widened when shrinking, as many fast resizers do not."""
    device = scale.device
    centre = (torch.arange(out_size, device=device).view(1, -1, 1) + 0.5) / scale.view(-1, 1, 1) - 0.5
    j = torch.arange(in_size, device=device).view(1, 1, -1)
    widen = torch.where(sharp_edge, torch.ones_like(scale), scale.clamp(max=1)).view(-1, 1, 1)
    weight = kernel_value((j - centre) * widen, kind.view(-1, 1, 1))
    return weight / weight.sum(2, keepdim=True).clamp(min=1e-6)


def blurring(size, sigma):
    """(B, size, size) Gaussian rows; sigma near 0 is the identity, a negative one sharpens."""
    i = torch.arange(size, device=sigma.device)
    distance = (i[:, None] - i[None]).float()
    s = sigma.abs().clamp(min=0.05).view(-1, 1, 1)
    g = torch.exp(-0.5 * (distance / s) ** 2)
    g = g / g.sum(2, keepdim=True)
    sharpened = 1.6 * torch.eye(size, device=sigma.device) - 0.6 * g
    return torch.where(sigma.view(-1, 1, 1) < 0, sharpened, g)


def chance(n, p, device):
    return torch.rand(n, device=device) < p


def between(n, low, high, device):
    return low + (high - low) * torch.rand(n, device=device)


def turned(x):
    """One of the eight symmetries for each half of a band; the draw does not see the labels."""
    half = len(x) // 2
    parts = []
    for part in (x[:half], x[half:]):
        k = int(torch.randint(0, 4, ()))
        part = torch.rot90(part, k, (2, 3)) if k else part
        parts.append(part.flip(3) if torch.rand(()) < 0.5 else part)
    return torch.cat(parts)


def bands(count, lowest_scale):
    """[(count, lowest scale, highest)]: a batch in parts of like scale, so that few windows are wider than they need."""
    plain, light, enlarged = round(count * 0.4), round(count * 0.28), round(count * 0.08)
    middle = max(lowest_scale, 0.68)
    parts = ((plain, 1.0, 1.0), (light, middle, 1.0), (enlarged, 1.0, 1.4),
             (count - plain - light - enlarged, lowest_scale, middle))
    return [part for part in parts if part[0]]


def recipe(count, strength, scales, device):
    """What happens to each of `count` windows: tensors (count,)."""
    zero, one = torch.zeros(count, device=device), torch.ones(count, device=device)

    def sometimes(p, low, high, otherwise):
        return torch.where(chance(count, p, device), between(count, low, high, device), otherwise)

    return {
        "scale": between(count, *scales, device),
        "kernel": torch.randint(0, 5, (count,), device=device),
        "narrow": chance(count, 0.15, device),
        "sigma": sometimes(0.2 * strength, -0.8, 1.2, zero),
        "gain": sometimes(0.5 * strength, 0.75, 1.25, one),
        "lift": sometimes(0.5 * strength, -20, 20, zero),
        "gamma": sometimes(0.4 * strength, 0.8, 1.25, one),
        "saturation": sometimes(0.5 * strength, 0.4, 1.4, one),
        "red": sometimes(0.4 * strength, 0.93, 1.07, one),
        "blue": sometimes(0.4 * strength, 0.93, 1.07, one),
        "noise": sometimes(0.15 * strength, 0, 5, zero),
    }


def coloured(x, r):
    def each(name):
        return r[name].view(-1, 1, 1, 1)

    grey = x.mean(1, keepdim=True)
    cast = torch.stack([r["red"], torch.ones_like(r["red"]), r["blue"]], 1)[:, :, None, None]
    y = (grey + (x - grey) * each("saturation")) * each("gain") * cast + each("lift")
    return (y.clamp(0, 255) / 255) ** each("gamma") * 255


@contextlib.contextmanager
def rounded_products():
    """Matrix products of ten-bit numbers: exact for whole levels, a tenth of a level off after a resize."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def resampled(windows, r, wide, plain):
    """windows (B, n, n, 3) uint8 with n ≥ wide / scale, r: a recipe → (B, 3, wide, wide), levels. plain: all of scale 1."""
    x = turned(windows.permute(0, 3, 1, 2).float())
    with rounded_products():
        matrix = blurring(wide, r["sigma"])
        if not plain:
            # At scale 1 the kernels leave the pixels alone, but for Mitchell's, which would blur.
            kernel = torch.where((r["scale"] == 1) & (r["kernel"] == 4), torch.ones_like(r["kernel"]), r["kernel"])
            matrix = matrix @ resampling(wide, x.shape[2], r["scale"], kernel, r["narrow"])
        x = torch.einsum("boi,bcij->bcoj", matrix, x)
        return torch.einsum("boj,bcij->bcio", matrix, x).clamp(0, 255)


def finished(x, r):
    """Colour and noise. x (B, 3, H, W)."""
    x = coloured(x, r)
    return (x + torch.randn_like(x) * r["noise"].view(-1, 1, 1, 1)).round().clamp(0, 255)


# How an image is encoded, and which part of a batch is: JPEG with the colours halved, JPEG, WebP, not at all.
ENCODINGS = [(0.245, lambda x, q: jpeg(x, q, True)), (0.245, lambda x, q: jpeg(x, q, False)), (0.21, webp_like)]


def encoded(x, size):
    """(B, 3, H, W) of levels in random order → (B, size, size, 3) uint8. The first are encoded in the first way, and so on."""
    at, parts = 0, []
    for share, way in ENCODINGS:
        part = x[at : at + round(share * len(x))]
        at += len(part)
        parts.append(cut(way(part, between(len(part), 50, 98, x.device).round()), size))
    parts.append(cut(x[at:], size))
    return torch.cat(parts).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def cut(x, size):
    """A window of `size` at a random phase, another for each of four parts of the batch."""
    parts = []
    for part in x.chunk(4):
        top, left = torch.randint(0, MARGIN + 1, (2,)).tolist()
        parts.append(part[:, :, top : top + size, left : left + size])
    return torch.cat(parts)

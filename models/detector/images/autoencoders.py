"""Fakes from real images: small autoencoders, trained for seconds on real regions, leave the traces that decoders leave.

A reconstruction has the content of its original, so only the traces of the decoder tell the two apart. Several factors
of downsampling and kinds of upsampling, since generators differ in them; each is re-encoded as its original was.
"""
import collections
import re
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from images import augment

# (name, downsampling, latent channels beside the three of the small picture, upsampling, what else)
KINDS = [
    ("f8-nearest", 8, 16, "nearest", ""),
    ("f8-shuffle-judged", 8, 16, "shuffle", "judged"),
    ("f8-bilinear", 8, 12, "bilinear", ""),
    ("f4-nearest-codes", 4, 8, "nearest", "codes"),
    ("f4-transposed", 4, 8, "transposed", ""),
    ("f8-nearest-judged", 8, 4, "nearest", "judged"),
]
CODES = 1024  # entries of a codebook
COMMON_QUALITY = 92  # of packs: JPEG 4:4:4 for both labels
WIDTHS = (32, 64, 96, 128)


class Unit(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.two = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1),
                                 nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1))

    def forward(self, x):
        return x + self.two(x)


def up(cin, cout, kind):
    if kind == "shuffle":
        return nn.Sequential(nn.Conv2d(cin, cout * 4, 3, padding=1), nn.PixelShuffle(2))
    if kind == "transposed":
        return nn.ConvTranspose2d(cin, cout, 4, 2, 1)
    return nn.Sequential(nn.Upsample(scale_factor=2, mode=kind), nn.Conv2d(cin, cout, 3, padding=1))


class Grain(nn.Module):
    """Noise by channel: what a decoder draws where it was not told the detail."""

    def __init__(self, c):
        super().__init__()
        self.scale = nn.Parameter(torch.full((1, c, 1, 1), 0.05))

    def forward(self, x):
        return x + self.scale * torch.randn_like(x[:, :1])


class Autoencoder(nn.Module):
    """(N, 3, H, W) in ±1, H and W multiples of the factor, to the same: the picture made small and large again, and detail."""

    def __init__(self, factor, latent, kind, more=""):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(CODES, latent)) if more == "codes" else None
        steps = factor.bit_length() - 1
        widths = WIDTHS[: steps + 1]
        down = [nn.Conv2d(3, widths[0], 3, padding=1)]
        for a, b in zip(widths, widths[1:]):
            down += [nn.Conv2d(a, b, 3, 2, 1), Unit(b)]
        rise = [nn.Conv2d(latent + 3, widths[-1], 3, padding=1), Unit(widths[-1])]
        for a, b in zip(widths[::-1], widths[-2::-1]):
            rise += [up(a, b, kind), Grain(b), Unit(b)]
        self.factor = factor
        self.encoder = nn.Sequential(*down, nn.Conv2d(widths[-1], latent, 3, padding=1))
        self.decoder = nn.Sequential(*rise, nn.GroupNorm(8, widths[0]), nn.SiLU(), nn.Conv2d(widths[0], 3, 3, padding=1))

    def forward(self, x, noise=0.0):
        z = self.encoder(x)
        z = z / (1 + z.abs() / 4)  # bounded, so that the noise means something
        if self.codes is not None:
            z, noise = self.coded(z), 0.0
        small = F.avg_pool2d(x, self.factor)
        large = F.interpolate(small, scale_factor=self.factor, mode="bilinear", align_corners=False)
        return large + self.decoder(torch.cat([z + noise * torch.randn_like(z), small], 1))

    def coded(self, z):
        """Each place as the nearest entry of the codebook; the gradient passes, and draws entries and places together."""
        places = z.permute(0, 2, 3, 1).float()
        codes = self.codes.float()
        far = -2 * places @ codes.T + codes.square().sum(1)
        near = codes[far.argmin(-1)]
        self.apart = (near - places.detach()).square().mean() + 0.25 * (places - near.detach()).square().mean()
        return (places + (near - places).detach()).permute(0, 3, 1, 2)


class Judge(nn.Module):
    """Patches of a picture as its own or made: what a decoder learns against draws texture instead of a mean of textures."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 48, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(48, 96, 4, 2, 1), nn.GroupNorm(8, 96),
                                    nn.LeakyReLU(0.2), nn.Conv2d(96, 192, 4, 2, 1), nn.GroupNorm(8, 192), nn.LeakyReLU(0.2),
                                    nn.Conv2d(192, 1, 3, padding=1))

    def forward(self, x):
        return self.layers(x)


def detail(x):
    """The picture less its local mean."""
    return x - F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), 3, 1)


def lost(y, x):
    """Levels that differ, and detail: where it is not the same, there shall be as much of it, else every fake is a blur."""
    loss = (y - x).abs().mean()
    for _ in range(2):
        dy, dx = detail(y), detail(x)
        loss = loss + 0.5 * (dy - dx).abs().mean()
        loss = loss + 2 * (F.avg_pool2d(dy.abs(), 8) - F.avg_pool2d(dx.abs(), 8)).abs().mean()
        y, x = F.avg_pool2d(y, 2), F.avg_pool2d(x, 2)
    return loss


def fitted(kind, real, seconds, device, batch, size=192):
    """Trains one kind for so many seconds on windows of real regions."""
    name, factor, latent, upsampling, more = kind
    net = Autoencoder(factor, latent, upsampling, more).to(device, memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-4)
    judge = Judge().to(device, memory_format=torch.channels_last) if more == "judged" else None
    judging = torch.optim.AdamW(judge.parameters(), lr=4e-4, betas=(0.5, 0.99)) if judge else None
    begun, step, loss = time.time(), 0, torch.zeros(())
    while (share := (time.time() - begun) / seconds) < 1:
        for group in optimiser.param_groups:
            group["lr"] = 1.5e-3 * min(1, (step + 1) / 50) * (1 - share) + 1e-5
        which = torch.randint(0, len(real), (batch,), device=device)
        top = (torch.rand(batch, device=device) * (real.height[which] - size).clamp(min=1)).long()
        left = (torch.rand(batch, device=device) * (real.width[which] - size).clamp(min=1)).long()
        x = real.windows(which, top, left, size).permute(0, 3, 1, 2).float() / 127.5 - 1
        x = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            y = net(x, 0.05).float()
        loss = lost(y, x)
        whole = loss + net.apart if more == "codes" else loss
        if judge and share > 0.3:  # the decoder first learns to draw without a judge
            judging.zero_grad(set_to_none=True)
            (F.relu(1 - judge(x)).mean() + F.relu(1 + judge(y.detach())).mean()).backward()
            judging.step()
            whole = loss - 0.03 * judge(y).mean()
        optimiser.zero_grad(set_to_none=True)
        whole.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        step += 1
    print(f"autoencoder {name}: {step} steps, loss {loss.item():.4f}", flush=True)
    return net.eval()


@torch.no_grad()
def passed(net, x, factor):
    """x (B, 3, H, W) of levels → its reconstructions."""
    h, w = x.shape[2:]
    padded = F.pad(x / 127.5 - 1, (0, -w % factor, 0, -h % factor), mode="reflect")
    ours = isinstance(net, Autoencoder)
    with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda and ours):
        y = net(padded.contiguous(memory_format=torch.channels_last)).float()
    return (y[:, :, :h, :w] + 1) * 127.5


def encoded_at(x, quality, halved, shift):
    """JPEG whose block grid lies `shift` pixels off. x (B, 3, H, W), quality (B,)."""
    h, w = x.shape[2:]
    x = F.pad(x, (shift, -(w + shift) % 16, shift, -(h + shift) % 16), mode="replicate")
    return augment.jpeg(x, quality, halved)[:, :, shift : shift + h, shift : shift + w]


def encoded_alike(x, rows, rng):
    """As their originals were: first what `history` names, if it names a JPEG, then the encoding of all packs. x (B, 3, H, W)."""
    named = [re.findall(r"jpeg(\d+)", row.get("history") or "") for row in rows]
    quality = torch.tensor([float(each[0]) if each else 100.0 for each in named], device=x.device)
    before = encoded_at(x, quality, rng.random() < 0.5, int(rng.integers(1, 8)))
    x = torch.where(torch.tensor([bool(each) for each in named], device=x.device).view(-1, 1, 1, 1), before, x)
    return encoded_at(x, torch.full_like(quality, COMMON_QUALITY), False, 0)


def trained(real, seconds, device, batch):
    return [fitted(kind, real, seconds / len(KINDS), device, batch) for kind in KINDS]


SIDES = (640, 416, 384, 352, 320, 288, 256, 224, 192, 160)  # few sizes, since every new one is planned anew


@torch.no_grad()
def reconstructions(real, makers, seed=0, batch=16):
    """[(index of the real region, name of the maker, pixels)]: one for each real region; some are part original.

    makers: [(name, factor, network from ±1 to ±1)]. A region is cut to the largest square of SIDES.
    """
    rng = np.random.default_rng(seed)
    groups = collections.defaultdict(list)  # of one network and one size
    heights, widths, starts = (t.tolist() for t in (real.height, real.width, real.start))
    for i in range(len(real.rows)):
        side = next((s for s in SIDES if s <= min(heights[i], widths[i])), None)
        if side:
            groups[int(rng.integers(len(makers))), side].append(i)
    out = []
    for (pick, side), mine in sorted(groups.items()):
        name, factor, net = makers[pick]
        for at in range(0, len(mine), batch):
            part = mine[at : at + batch]
            x = torch.stack([square(real.pixels[starts[i] : starts[i] + heights[i] * widths[i]].view(heights[i], widths[i], 3), side, rng)
                             for i in part]).permute(0, 3, 1, 2).float()
            share = np.where(rng.random(len(part)) < 0.8, 1.0, rng.uniform(0.6, 1.0, len(part)))
            share = torch.tensor(share, dtype=torch.float32, device=x.device).view(-1, 1, 1, 1)
            y = (share * passed(net, x, factor) + (1 - share) * x).round().clamp(0, 255)
            y = encoded_alike(y, [real.rows[i] for i in part], rng).permute(0, 2, 3, 1).to(torch.uint8).cpu().numpy()
            out += [(i, name, pixels) for i, pixels in zip(part, y)]
    return out


def square(pixels, side, rng):
    top, left = (int(rng.integers(length - side + 1)) for length in pixels.shape[:2])
    return pixels[top : top + side, left : left + side]

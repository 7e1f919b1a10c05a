"""Fakes from real images: small autoencoders, trained on the spot on real regions, leave what decoders leave.

A reconstruction has the content of its original, so only the traces of the decoder tell the two apart. Several factors
of downsampling and kinds of upsampling, since generators differ in them; each is re-encoded as its original was.
"""
import os
import re
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import augment
import packs

# (name, downsampling, latent channels, upsampling)
KINDS = [
    ("f8-nearest", 8, 16, "nearest"),
    ("f8-shuffle", 8, 12, "shuffle"),
    ("f8-transposed", 8, 16, "transposed"),
    ("f4-nearest", 4, 4, "nearest"),
    ("f4-bilinear", 4, 4, "bilinear"),
    ("f16-shuffle", 16, 48, "shuffle"),
]
COMMON_QUALITY = 95  # of packs: JPEG 4:4:4 for both labels
WIDTHS = (32, 64, 96, 128, 128)


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


class Autoencoder(nn.Module):
    """(N, 3, H, W) in ±1, H and W multiples of the factor, to the same."""

    def __init__(self, factor, latent, kind):
        super().__init__()
        steps = factor.bit_length() - 1
        widths = WIDTHS[: steps + 1]
        down = [nn.Conv2d(3, widths[0], 3, padding=1)]
        for a, b in zip(widths, widths[1:]):
            down += [nn.Conv2d(a, b, 3, 2, 1), Unit(b)]
        rise = [nn.Conv2d(latent, widths[-1], 3, padding=1), Unit(widths[-1])]
        for a, b in zip(widths[::-1], widths[-2::-1]):
            rise += [up(a, b, kind), Unit(b)]
        self.encoder = nn.Sequential(*down, nn.Conv2d(widths[-1], latent, 3, padding=1))
        self.decoder = nn.Sequential(*rise, nn.GroupNorm(8, widths[0]), nn.SiLU(), nn.Conv2d(widths[0], 3, 3, padding=1))

    def forward(self, x, noise=0.0):
        z = self.encoder(x)
        z = z / (1 + z.abs() / 4)  # bounded, so that the noise means something
        return self.decoder(z + noise * torch.randn_like(z))


def detail(x):
    """The picture less its local mean."""
    return x - F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), 3, 1)


def fitted(kind, real, seconds, device, batch, size=192):
    """Trains one kind for so many seconds on windows of real regions; the loss asks for detail, not only for means."""
    name, factor, latent, upsampling = kind
    net = Autoencoder(factor, latent, upsampling).to(device, memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-4)
    begun, step, loss = time.time(), 0, torch.zeros(())
    while (share := (time.time() - begun) / seconds) < 1:
        for group in optimiser.param_groups:
            group["lr"] = 1.5e-3 * min(1, (step + 1) / 50) * (1 - share) + 1e-5
        which = torch.randint(0, len(real), (batch,), device=device)
        top = (torch.rand(batch, device=device) * (real.height[which] - size).clamp(min=1)).long()
        left = (torch.rand(batch, device=device) * (real.width[which] - size).clamp(min=1)).long()
        x = real.windows(which, top, left, size).permute(0, 3, 1, 2).float() / 127.5 - 1
        x = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast(device, torch.bfloat16):
            y = net(x, 0.05).float()
        loss = (y - x).abs().mean() + (detail(y) - detail(x)).abs().mean()
        # As much detail as the original has, even where it is not the same detail: else every fake is a blur.
        loss = loss + 0.5 * (detail(y).abs().mean((2, 3)) - detail(x).abs().mean((2, 3))).abs().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        step += 1
    print(f"autoencoder {name}: {step} steps, loss {loss.item():.4f}", flush=True)
    return net.eval()


@torch.no_grad()
def passed(net, pixels, factor, device, share=1.0):
    """pixels (H, W, 3) uint8 → the same size, of which `share` is the reconstruction."""
    h, w = pixels.shape[0], pixels.shape[1]
    x = pixels.permute(2, 0, 1)[None].float() / 127.5 - 1
    x = F.pad(x, (0, -w % factor, 0, -h % factor), mode="reflect")
    with torch.autocast(device, torch.bfloat16):
        y = net(x.contiguous(memory_format=torch.channels_last)).float()
    y = share * y + (1 - share) * x
    return ((y[:, :, :h, :w] + 1) * 127.5).round().clamp(0, 255)


def encoded_at(x, quality, halved, shift):
    """JPEG whose block grid lies `shift` pixels off. x (1, 3, H, W)."""
    h, w = x.shape[2:]
    x = F.pad(x, (shift, -(w + shift) % 16, shift, -(h + shift) % 16), mode="replicate")
    x = augment.jpeg(x, torch.tensor([float(quality)], device=x.device), torch.tensor([halved], device=x.device))
    return x[:, :, shift : shift + h, shift : shift + w]


def encoded_alike(x, row, rng):
    """As its original was: the index names the quality, or the steps before a common one (`history`). x (1, 3, H, W)."""
    if (row.get("jpeg_q") or "").isdigit():
        return encoded_at(x, row["jpeg_q"], row.get("subsampling") == "420", 0)
    for step in re.findall(r"jpeg(\d+)", row.get("history") or ""):
        if float(row.get("scale") or 1) == 1:  # a grid from before a resize is gone
            x = encoded_at(x, step, rng.random() < 0.5, int(rng.integers(1, 8)))
    return encoded_at(x, COMMON_QUALITY, False, 0)


def kept(real, seconds, device, path, batch):
    """The networks of `path`, which are trained and written there when it does not exist."""
    if os.path.exists(path):
        states = torch.load(path, map_location=device, weights_only=True)
        nets = [Autoencoder(*kind[1:]).to(device, memory_format=torch.channels_last).eval() for kind in KINDS]
        for net, kind in zip(nets, KINDS):
            net.load_state_dict(states[kind[0]])
        return nets
    nets = [fitted(kind, real, seconds / len(KINDS), device, batch) for kind in KINDS]
    torch.save({kind[0]: net.state_dict() for net, kind in zip(nets, KINDS)}, path + ".tmp")
    os.replace(path + ".tmp", path)
    return nets


def reconstructions(real, nets, device, seed=0):
    """A set of regions, label ai and source `recon-<kind>`, one for each real region."""
    rng = np.random.default_rng(seed)
    rows, arrays = [], []
    for i, row in enumerate(real.rows):
        pick = int(rng.integers(len(KINDS)))
        start, h, w = int(real.start[i]), int(real.height[i]), int(real.width[i])
        pixels = real.pixels[start : start + h * w].view(h, w, 3)
        share = 1.0 if rng.random() < 0.7 else float(rng.uniform(0.6, 1.0))
        out = encoded_alike(passed(nets[pick], pixels, KINDS[pick][1], device, share), row, rng)
        arrays.append(out[0].permute(1, 2, 0).to(torch.uint8).cpu().numpy())
        rows.append({**row, "label": "ai", "source": f"recon-{KINDS[pick][0]}", "family": "recon"})
    return packs.Regions(rows, arrays, device)

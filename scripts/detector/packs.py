"""Regions of images in one flat tensor, so that a batch of windows is one gather on the GPU.

A pack is a folder with `index.csv` (file, label, source, family, content, fold) and the files beside it, or inside
`*.tar` beside it.
"""
import csv
import io
import os
import tarfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from PIL import Image, ImageOps


def decoded(source):
    """8-bit RGB as the product decodes it: EXIF orientation, alpha over grey 128."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(source) if isinstance(source, bytes) else source))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (128, 128, 128, 255)), image)
    return np.asarray(image.convert("RGB"))


def webp(pixels, quality):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "WEBP", quality=quality, method=2)
    return np.asarray(Image.open(io.BytesIO(out.getvalue())).convert("RGB"))


def opened(job):
    folder, tar, offset, size, name, quality = job
    if tar:
        with open(os.path.join(folder, tar), "rb") as f:
            f.seek(offset)
            source = f.read(size)
    else:
        source = os.path.join(folder, name)
    pixels = decoded(source)
    return webp(pixels, quality) if quality else pixels


def listed(folder):
    """Rows of the index with where their bytes are."""
    with open(os.path.join(folder, "index.csv"), newline="") as f:
        rows = list(csv.DictReader(f))
    members = {}
    for tar in sorted(n for n in os.listdir(folder) if n.endswith(".tar")):
        with tarfile.open(os.path.join(folder, tar)) as archive:
            for m in archive:
                members[os.path.normpath(m.name)] = (tar, m.offset_data, m.size)
    for row in rows:
        row["at"] = (folder, *members.get(os.path.normpath(row["file"]), (None, 0, 0)), row["file"])
    return [r for r in rows if r["at"][1] or os.path.exists(os.path.join(folder, r["file"]))]


class Regions:
    """pixels (P, 3) uint8; region i has height[i] × width[i] pixels from start[i] on."""

    def __init__(self, rows, arrays, device):
        self.rows = rows
        self.height = torch.tensor([a.shape[0] for a in arrays], device=device)
        self.width = torch.tensor([a.shape[1] for a in arrays], device=device)
        areas = torch.tensor([a.shape[0] * a.shape[1] for a in arrays])
        self.start = torch.cat([torch.zeros(1, dtype=torch.int64), areas.cumsum(0)[:-1]]).to(device)
        self.pixels = torch.empty((int(areas.sum()), 3), dtype=torch.uint8, device=device)
        at = 0
        for a in arrays:
            self.pixels[at : at + a.shape[0] * a.shape[1]] = torch.from_numpy(a.reshape(-1, 3).copy()).to(device)
            at += a.shape[0] * a.shape[1]
        self.device = device
        label(self)

    def __len__(self):
        return len(self.rows)

    def windows(self, which, top, left, size):
        """(B, size, size, 3); past an edge the picture is reflected."""
        h, w = self.height[which], self.width[which]
        span = torch.arange(size, device=self.device)
        y = reflected(top[:, None] + span, h[:, None])
        x = reflected(left[:, None] + span, w[:, None])
        index = self.start[which].view(-1, 1, 1) + y[:, :, None] * w.view(-1, 1, 1) + x[:, None, :]
        return self.pixels[index]


def label(regions):
    """What the rows say, as tensors: the label and the number of the source."""
    regions.label = torch.tensor([float(r["label"] == "ai") for r in regions.rows], device=regions.device)
    regions.sources = sorted({r["source"] for r in regions.rows})
    number = {name: i for i, name in enumerate(regions.sources)}
    regions.source = torch.tensor([number[r["source"]] for r in regions.rows], device=regions.device)


def reflected(at, size):
    period = (2 * (size - 1)).clamp(min=1)
    at = at.remainder(period)
    return torch.where(at >= size, period - at, at)


def load(folders, device, keep, webp_share=0.0, workers=1, limit=0):
    """webp_share: that part of the regions, drawn without regard to the label, has been through WebP."""
    rows = [r for folder in folders for r in listed(folder) if keep(r)]
    if limit:
        rng = np.random.default_rng(1)
        rows = [rows[i] for i in sorted(rng.permutation(len(rows))[:limit])]
    rng = np.random.default_rng(0)
    qualities = [int(rng.integers(50, 96)) if rng.random() < webp_share else 0 for _ in rows]
    jobs = [(*row["at"], q) for row, q in zip(rows, qualities)]
    with ThreadPoolExecutor(workers) as pool:  # decoders let go of the interpreter
        return Regions(rows, list(pool.map(opened, jobs)), device)


def drawn(regions, weights, recipe, size, widest):
    """A window of `widest` pixels for each image of the recipe: which (B,), windows (B, n, n, 3), recipe.

    A region too small for its scale gets the smallest scale it has the pixels for.
    """
    count, device = len(recipe["scale"]), regions.device
    which = torch.multinomial(weights, count, replacement=True)
    short = torch.minimum(regions.height[which], regions.width[which]).float()
    scale = torch.maximum(recipe["scale"], (size / short).clamp(max=1))
    need = (size / scale).ceil().long()
    top = torch.rand(count, device=device) * ((regions.height[which] - need).clamp(min=0) + 1)
    left = torch.rand(count, device=device) * ((regions.width[which] - need).clamp(min=0) + 1)
    return which, regions.windows(which, top.long(), left.long(), widest), {**recipe, "scale": scale}


def balanced(regions, recon, content, least=30):
    """(R,) weights of a draw: the classes alike, and inside a class every source alike; few regions count for less.

    Reconstructions have the share `recon` of the generated half. Of the draws, the part `content` has the same kinds of
    content in both classes, so that a photograph is not real because few generated ones are at hand: where a kind has
    no generated source, reconstructions stand in.
    """
    counts = torch.bincount(regions.source, minlength=len(regions.sources))
    alike = 1 / counts[regions.source].clamp(min=least).double()
    made = torch.tensor([r["family"] == "recon" for r in regions.rows], device=regions.device)
    kinds = sorted({r["content"] for r in regions.rows})
    kind = torch.tensor([kinds.index(r["content"]) for r in regions.rows], device=regions.device)
    ai = regions.label == 1

    def shared(mine, share):
        """Weights of the regions `mine` that sum to `share`, reconstructions to their part of it."""
        out = torch.zeros_like(alike)
        parts = [(mine & ~made, 1 - recon), (mine & made, recon)]
        parts = [(m, p) for m, p in parts if p > 0 and alike[m].sum() > 0]
        for m, p in parts:
            out[m] = alike[m] / alike[m].sum() * share * p / sum(p for _, p in parts)
        return out

    by_source = shared(ai, 1.0) + shared(~ai, 1.0)
    by_content = torch.zeros_like(alike)
    for k in range(len(kinds)):
        both = [(kind == k) & ai, (kind == k) & ~ai]
        if all(m.any() for m in both):
            share = by_source[kind == k].sum() / 2
            by_content += sum(shared(m, share) for m in both)
    return ((1 - content) * by_source + content * by_content / by_content.sum() * 2).float()


def chosen(regions, indices):
    """Those regions alone; the pixels are shared."""
    out = Regions.__new__(Regions)
    out.device, out.pixels, out.sources = regions.device, regions.pixels, regions.sources
    out.rows = [regions.rows[i] for i in indices]
    for name in ("height", "width", "start", "label", "source"):
        setattr(out, name, getattr(regions, name)[torch.tensor(indices, device=regions.device)])
    return out


def few(regions, indices):
    """Those rows alone, without pixels: what `balanced` reads."""
    out = Regions.__new__(Regions)
    out.device, out.rows = regions.device, [regions.rows[i] for i in indices]
    label(out)
    return out


def joined(a, b):
    """Both sets in one."""
    out = Regions.__new__(Regions)
    out.device, out.rows = a.device, a.rows + b.rows
    for name in ("pixels", "height", "width"):
        setattr(out, name, torch.cat([getattr(a, name), getattr(b, name)]))
    out.start = torch.cat([a.start, b.start + len(a.pixels)])
    label(out)
    return out

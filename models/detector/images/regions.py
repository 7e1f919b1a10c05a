"""Regions of images in one flat tensor, so that a batch of windows is one gather on the GPU; and how often each is drawn."""
import torch


class Labelled:
    """Rows of an index, with labels and numbers of sources as tensors."""

    def __init__(self, rows, device):
        self.rows, self.device = rows, device
        self.label = torch.tensor([float(r["label"] == "ai") for r in rows], device=device)
        self.sources = sorted({r["source"] for r in rows})
        number = {name: i for i, name in enumerate(self.sources)}
        self.source = torch.tensor([number[r["source"]] for r in rows], device=device)

    def __len__(self):
        return len(self.rows)


class Regions(Labelled):
    """pixels (P, 3) uint8; region i has height[i] × width[i] pixels from start[i] on."""

    def __init__(self, rows, pixels, start, height, width):
        super().__init__(rows, pixels.device.type)
        self.pixels, self.start, self.height, self.width = pixels, start, height, width

    def chosen(self, indices):
        """Those regions alone; the pixels are shared."""
        at = torch.tensor(indices, device=self.device)
        return Regions([self.rows[i] for i in indices], self.pixels, self.start[at], self.height[at], self.width[at])

    def windows(self, which, top, left, size):
        """(B, size, size, 3); past an edge the picture is reflected."""
        h, w = self.height[which], self.width[which]
        span = torch.arange(size, device=self.device)
        y = reflected(top[:, None] + span, h[:, None])
        x = reflected(left[:, None] + span, w[:, None])
        index = self.start[which].view(-1, 1, 1) + y[:, :, None] * w.view(-1, 1, 1) + x[:, None, :]
        return self.pixels[index]


def reflected(at, size):
    period = (2 * (size - 1)).clamp(min=1)
    at = at.remainder(period)
    return torch.where(at >= size, period - at, at)


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

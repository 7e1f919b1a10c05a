"""Trains the network for the whole image (whole.py) beside those for crops.

The rate stays the same, and the running mean of the weights is kept after a quarter, a half and all of the time. Which of the
three is used is chosen with the answers of other folds (protocol/answers.py).
"""
import time

import numpy as np
import torch
import torch.nn.functional as F

from images import augment, cache
from images.regions import Labelled, balanced
from networks import whole
from networks.train_crops import Mean
from networks.whole_view import SIDE

KEPT = {"early": 0.25, "middle": 0.5, "late": 1.0}
SMOOTHING = 0.05


class Pictures(Labelled):
    """Rows with their whole images at 128 × 128."""

    def __init__(self, rows, where, device):
        super().__init__([r for r in rows if r["thumb"] in where], device)
        paths = sorted({where[r["thumb"]][0] for r in self.rows})
        loaded = {p: torch.from_numpy(np.fromfile(p, np.uint8)).view(-1, SIDE, SIDE, 3) for p in paths}
        self.pixels = torch.stack([loaded[where[r["thumb"]][0]][where[r["thumb"]][1] // SIDE**2] for r in self.rows]).to(device)


def moved(x):
    """Zoomed, shifted, mirrored. x (B, 3, S, S)."""
    n = len(x)
    zoom = augment.between(n, 0.6, 1.1, x.device)
    stretch = augment.between(n, 0.9, 1.1, x.device)
    mirror = torch.where(augment.chance(n, 0.5, x.device), -1.0, 1.0)
    room = (1 - zoom).clamp(min=0.05)
    matrix = torch.zeros(n, 2, 3, device=x.device)
    matrix[:, 0, 0], matrix[:, 1, 1] = zoom * mirror, zoom * stretch
    matrix[:, 0, 2], matrix[:, 1, 2] = (room * augment.between(n, -1, 1, x.device) for _ in range(2))
    return F.grid_sample(x, F.affine_grid(matrix, x.shape, align_corners=False), padding_mode="reflection", align_corners=False)


def view(pixels):
    """(B, S, S, 3) bytes → the same after what happens to pictures, blind to the label."""
    x = moved(pixels.permute(0, 3, 1, 2).float())
    recipe = augment.recipe(len(x), 1.0, (1.0, 1.0), x.device)
    grey = augment.chance(len(x), 0.1, x.device).view(-1, 1, 1, 1)
    x = torch.where(grey, x.mean(1, keepdim=True).expand_as(x), x)
    blur = augment.blurring(SIDE, recipe["sigma"])
    x = torch.einsum("boi,bcij,bpj->bcop", blur, x, blur).clamp(0, 255)
    x = augment.finished(x, recipe)
    half = len(x) // 2
    x[:half] = augment.jpeg(x[:half], augment.between(half, 40, 95, x.device).round(), True)
    return x.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1)


class Learned:
    """Networks by name: one network at several moments of its training."""

    def __init__(self, nets, pictures):
        self.nets, self.pictures = nets, pictures
        self.place = {r["file"]: i for i, r in enumerate(pictures.rows)}

    @torch.no_grad()
    def logits(self, pixels):
        out = {name: torch.cat([net.eval()(part) for part in pixels.split(512)]).double().cpu() for name, net in self.nets.items()}
        if broken := [name for name, values in out.items() if not values.isfinite().all()]:
            raise SystemExit(f"the network for the whole image says nothing finite: {', '.join(broken)}")
        return {name: values.numpy().tolist() for name, values in out.items()}

    def answers(self, rows):
        return self.logits(self.pictures.pixels[[self.place[r["file"]] for r in rows]])

    def answers_of(self, regions):
        """Of regions as if they were whole images: both sides of a comparison of encodings are seen in this way."""
        pixels = [regions.pixels[s : s + h * w].view(h, w, 3).permute(2, 0, 1)[None].float()
                  for s, h, w in zip(regions.start.tolist(), regions.height.tolist(), regions.width.tolist())]
        small = torch.cat([F.interpolate(x, (SIDE, SIDE), mode="area") for x in pixels])
        return self.logits(small.round().to(torch.uint8).permute(0, 2, 3, 1))

    def state(self):
        """Weights in half precision, since they are shipped in bytes; norms as they are."""
        return {name: {k: v.detach().cpu().half() if v.is_floating_point() and v.ndim > 1 else v.cpu() for k, v in net.state_dict().items()}
                for name, net in self.nets.items()}


def learned(args, rows, roles):
    pictures = Pictures(rows, cache.stored(args.cache, "thumbs_"), args.device)
    role = [roles.get(r["file"]) if roles else "train" for r in pictures.rows]
    fit = [i for i, each in enumerate(role) if each == "train"]
    few = Labelled([pictures.rows[i] for i in fit], args.device)
    chance = balanced(few, 0.0, args.content)
    net = whole.Whole()
    net.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in torch.load(args.begin, map_location="cpu").items()})
    net.to(args.device, memory_format=torch.channels_last)
    body = [p for n, p in net.named_parameters() if not n.startswith("head")]
    optimiser = torch.optim.AdamW([{"params": body, "lr": args.whole_rate}, {"params": net.head.parameters(), "lr": 10 * args.whole_rate}],
                                  weight_decay=0.05)
    rates = [group["lr"] for group in optimiser.param_groups]
    begun, average, where = time.time(), 0.0, torch.tensor(fit, device=args.device)
    run = net if args.no_compile else torch.compile(net)
    mean, kept, step = Mean(net), {}, 0
    while len(kept) < len(KEPT):
        for group, rate in zip(optimiser.param_groups, rates):
            group["lr"] = rate * min(1, (step + 1) / 100)
        pick = torch.multinomial(chance, args.whole_batch, replacement=True)
        net.eval()  # the norms keep what they know of natural images
        net.head.train()
        with torch.autocast(args.device, torch.bfloat16, enabled=args.device == "cuda"):
            logits = run(view(pictures.pixels[where[pick]])).float()
        loss = F.binary_cross_entropy_with_logits(logits, few.label[pick] * (1 - 2 * SMOOTHING) + SMOOTHING)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        mean.update()
        if step == 0:
            begun = time.time()  # the first step compiles, which may take as long as a quarter of the time
        share = (time.time() - begun) / args.whole_seconds
        for name in [n for n, moment in KEPT.items() if n not in kept and share >= moment]:
            kept[name] = whole.Whole().to(args.device)
            kept[name].load_state_dict(mean.state)
        step += 1
        if step in (50, 200) or step % 500 == 0:
            print(f"whole: {step} steps, {time.time() - begun:.0f} s", flush=True)
        if step % 50 == 0:
            average = loss.item() if step <= 50 else 0.8 * average + 0.2 * loss.item()
    print(f"whole: {len(fit)} pictures, {step} steps, loss {average:.3f}, {time.time() - begun:.0f} s", flush=True)
    return Learned(kept, pictures)

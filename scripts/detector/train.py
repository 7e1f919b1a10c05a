"""Trains the networks of the image detectors in a given number of minutes, all on the same views.

    python3 scripts/detector/train.py --packs DIR --val DIR --out DIR --minutes 20
    python3 scripts/detector/train.py --packs DIR --val DIR --out DIR --minutes 1 --device cpu --dry    # does it run at all?

--packs, --val: folders with index.csv and files or *.tar (packs.py), or folders of such folders. Rows of fold `fit` of the
first are learned from, those of fold `val` (other sources) of the second are only looked at. Writes as it goes
OUT/log.jsonl and OUT/NETWORK_{short,long}_N.pt: running means of the weights over the last thousand steps and over the
last seventh of all, at the N-th look; at the end OUT/NETWORK.pt, the short one, whatever the looks said. Autoencoders in
OUT/autoencoders.pt are used again.

First autoencoders are trained on the real regions for a moment, whose reconstructions are fakes too. Then single crops, every
source alike in the draw; some are seen after two encodings, which should not matter.
"""
import argparse
import json
import math
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

import autoencoders
import metrics
import model
import packs
import views
import whole
from augment import MARGIN, bands, encoded, finished, recipe, resampled

NETWORKS = {"half": model.HalfWide, "begun": whole.HalfBegun, "wide": model.Wide}
SMOOTHING = 0.03
LOOKS = 10
RECONSTRUCTIONS = 2500


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--packs", nargs="+", required=True)
    p.add_argument("--val", nargs="+", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--minutes", type=float, required=True)
    p.add_argument("--device", default="cuda")
    p.add_argument("--batch", type=int, default=320, help="crops")
    p.add_argument("--twins", type=int, default=64, help="of them that are seen twice")
    p.add_argument("--size", type=int, default=192, help="of a training crop; many regions are smaller than 256")
    p.add_argument("--steady", type=float, default=0.1, help="weight of the difference between two encodings")
    p.add_argument("--rate", type=float, default=2e-3)
    p.add_argument("--strength", type=float, default=1.0, help="of the augmentation")
    p.add_argument("--lowest_scale", type=float, default=0.4)
    p.add_argument("--recon", type=float, default=0.25, help="share of the reconstructions among the fakes")
    p.add_argument("--content", type=float, default=0.5, help="share of the draws with the same content in both classes")
    p.add_argument("--recon_minutes", type=float, default=1.5)
    p.add_argument("--workers", type=int, default=os.cpu_count())
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--no_compile", action="store_true")
    p.add_argument("--dry", action="store_true", help="few files, small batches")
    return p.parse_args()


def folders(given):
    """Each folder that has an index, itself or one level below."""
    found = []
    for folder in given:
        below = [os.path.join(folder, n) for n in sorted(os.listdir(folder))]
        found += [f for f in [folder, *below] if os.path.exists(os.path.join(f, "index.csv"))]
    if not found:
        raise SystemExit(f"no index.csv in {', '.join(given)}")
    return found


class Mean:
    """Running mean of weights and buffers over the last `steps`, or over that share of all steps so far."""

    EVERY = 4  # steps between two updates

    def __init__(self, net, steps):
        self.steps, self.step = steps, 0
        now = net.state_dict()  # the tensors themselves, which change in place
        self.state = {k: v.detach().clone() for k, v in now.items()}
        names = [k for k, v in now.items() if v.is_floating_point()]
        self.means, self.values = [self.state[k] for k in names], [now[k] for k in names]

    @torch.no_grad()
    def update(self):
        self.step += 1
        if self.step % self.EVERY == 0:
            over = self.steps * self.step if self.steps < 1 else min(self.steps, self.step / 10)
            torch._foreach_lerp_(self.means, self.values, min(1, self.EVERY / max(1, over)))


class Validation:
    """Images of unseen sources, cut as the product cuts; the mean over crops."""

    def __init__(self, regions):
        self.regions = regions
        plans = [views.plan_crops(int(w), int(h)) for w, h in zip(regions.width, regions.height)]
        device = regions.device
        self.of = torch.tensor([i for i, plan in enumerate(plans) for _ in plan], device=device)
        self.x, self.y = (torch.tensor([c[a] for plan in plans for c in plan], device=device) for a in (0, 1))

    @torch.no_grad()
    def __call__(self, net, batch=512):
        net.eval()
        logits = []
        for part in torch.arange(len(self.of), device=self.of.device).split(batch):
            windows = self.regions.windows(self.of[part], self.y[part], self.x[part], views.CROP)
            with torch.autocast(self.regions.device, torch.bfloat16):
                logits.append(net(windows).float())
        logits = torch.cat(logits)
        total = torch.zeros(len(self.regions), device=logits.device).index_add_(0, self.of, logits)
        score = (total / torch.bincount(self.of, minlength=len(total))).cpu().numpy()
        label = self.regions.label.cpu().numpy()
        groups = {name: metrics.by_group(label, score, [r[name] for r in self.regions.rows])
                  for name in ("source", "content", "family")}
        return score, {"auroc": metrics.auroc(label, score),
                       "by_source": float(np.mean([a for a, _ in groups["source"].values()])),
                       **{name: {k: round(a, 3) for k, (a, _) in g.items()} for name, g in groups.items()}}


def optimiser_of(net, args):
    decayed = [p for p in net.parameters() if p.ndim > 1]
    plain = [p for p in net.parameters() if p.ndim <= 1]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
                             lr=args.rate, **({"fused": True} if args.device == "cuda" else {}))


def rate_at(share, args, step):
    """Warmup by steps, cosine by the clock."""
    return args.rate * min(1, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))


class Views:
    """A batch: which region each view is of (V,), views (V, size, size, 3), and where the first and second of twins are."""

    def __init__(self, regions, weights, args):
        self.regions, self.weights, self.args = regions, weights, args

    @torch.no_grad()
    def __call__(self):
        args, wide, parts = self.args, self.args.size + MARGIN, []
        for count, low, high in bands(args.batch, args.lowest_scale):
            draw = recipe(count, args.strength, (low, high), args.device)
            which, windows, draw = packs.drawn(self.regions, self.weights, draw, wide, math.ceil(wide / low))
            parts.append((which, resampled(windows, draw, wide, low == high), draw))
        which, pixels = (torch.cat([p[i] for p in parts]) for i in (0, 1))
        pixels = finished(pixels, {k: torch.cat([p[2][k] for p in parts]) for k in parts[0][2]})
        first = torch.randperm(args.batch, device=args.device)
        order = torch.cat([first, first[: args.twins]])
        mixed = torch.randperm(len(order), device=args.device)  # how a view is encoded goes by its place
        place = torch.argsort(mixed)
        views = encoded(pixels[order[mixed]], args.size)
        return which[order[mixed]], views, place[: args.twins], place[args.batch :]


def loss_of(run, batch, regions, args):
    """Binary cross-entropy of the crops, and how far a crop's answer hangs on its encoding."""
    which, views, one, other = batch
    with torch.autocast(args.device, torch.bfloat16, enabled=args.device == "cuda"):
        logits = run(views).float()
    target = regions.label[which] * (1 - 2 * SMOOTHING) + SMOOTHING
    apart = (logits[one] - logits[other]).square().mean()
    return F.binary_cross_entropy_with_logits(logits, target) + args.steady * apart


class Network:
    """A network, its optimiser and the running means of its weights."""

    def __init__(self, name, args):
        torch.manual_seed(args.seed)
        self.name, self.args, self.average = name, args, 0.0
        self.net = NETWORKS[name]().to(args.device, memory_format=torch.channels_last)
        self.kept = NETWORKS[name]().to(args.device)
        self.run = self.net if args.no_compile or args.device != "cuda" else torch.compile(self.net)
        self.optimiser = optimiser_of(self.net, args)
        self.means = {"short": Mean(self.net, 1000), "long": Mean(self.net, 1 / 7)}

    def learn(self, batch, regions, rate, step):
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.net.train()
        loss = loss_of(self.run, batch, regions, self.args)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 2.0)
        self.optimiser.step()
        for mean in self.means.values():
            mean.update()
        if step % 50 == 0:
            self.average = loss.item() if step == 0 else 0.8 * self.average + 0.2 * loss.item()

    def look(self, number, validation):
        """Scores of both means, which are written: a run that is cut short leaves something."""
        out = {}
        for name, mean in self.means.items():
            self.kept.load_state_dict(mean.state)
            out[name] = validation(self.kept)
            self.write(f"{self.name}_{name}_{number}.pt", mean)
        return out

    def write(self, name, mean):
        path = os.path.join(self.args.out, name)
        torch.save({k: v.cpu() for k, v in mean.state.items()}, path + ".tmp")
        os.replace(path + ".tmp", path)


def look(networks, number, validation, args, line):
    scores = {n.name: n.look(number, validation) for n in networks}
    label = validation.regions.label.cpu().numpy()
    for mean in ("short", "long"):
        both = metrics.auroc(label, sum(s[mean][0] / s[mean][0].std() for s in scores.values()))
        each = {name: s[mean][1] for name, s in scores.items()}
        whole = {**line, "look": number, "mean": mean, "both": both, "loss": {n.name: n.average for n in networks}, **each}
        with open(os.path.join(args.out, "log.jsonl"), "a") as f:
            f.write(json.dumps(whole) + "\n")
        print(line, mean, f"both {both:.4f}", {k: (round(v["auroc"], 4), v["content"]) for k, v in each.items()},
              {n.name: round(n.average, 3) for n in networks}, flush=True)


def trained(views, validation, args, minutes):
    networks = [Network(name, args) for name in NETWORKS]
    begun, step, looked = time.time(), 0, 0
    while (share := (time.time() - begun) / (60 * minutes)) < 1:
        batch = views()
        for network in networks:
            network.learn(batch, views.regions, rate_at(share, args, step), step)
        step += 1
        if step in (20, 200):
            print(f"{step} steps, {time.time() - begun:.0f} s", flush=True)
        if share * LOOKS >= looked + 1:
            looked = int(share * LOOKS)
            look(networks, looked, validation, args, {"step": step, "seconds": round(time.time() - begun)})
    look(networks, LOOKS, validation, args, {"step": step, "seconds": round(time.time() - begun)})
    for network in networks:
        network.write(f"{network.name}.pt", network.means["short"])


def main():
    args = arguments()
    os.makedirs(args.out, exist_ok=True)
    torch.backends.cudnn.allow_tf32 = False  # the fixed filters need all their digits; the rest is bf16 anyway
    begun, limit = time.time(), 60 if args.dry else 0
    if args.dry:
        args.batch, args.twins = 20, 4
    fit = packs.load(folders(args.packs), args.device, lambda r: r.get("fold") == "fit", 0.25, args.workers, limit)
    val = packs.load(folders(args.val), args.device, lambda r: r.get("fold") == "val", 0.0, args.workers, limit)
    print(f"{len(fit)} regions to learn from, {len(val)} images to look at, {time.time() - begun:.0f} s", flush=True)
    if args.recon > 0:
        real = packs.chosen(fit, [i for i, r in enumerate(fit.rows) if r["label"] != "ai"])
        seconds = 60 * min(args.recon_minutes, args.minutes / 6)
        nets = autoencoders.kept(real, seconds, args.device, os.path.join(args.out, "autoencoders.pt"), 2 if args.dry else 64)
        few = np.random.default_rng(2).permutation(len(real))[:RECONSTRUCTIONS].tolist()
        fakes = autoencoders.reconstructions(packs.chosen(real, few), nets, args.device)
        fit = packs.joined(fit, fakes)
        print(f"{len(fakes)} reconstructions, {time.time() - begun:.0f} s", flush=True)
    weights = packs.balanced(fit, args.recon, args.content)
    torch.backends.cudnn.benchmark = True  # not before: regions that are reconstructed have many sizes
    trained(Views(fit, weights, args), Validation(val), args, max(0.2, args.minutes - (time.time() - begun) / 60))


if __name__ == "__main__":
    main()

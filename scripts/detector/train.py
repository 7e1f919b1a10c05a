"""Trains the networks of the image detectors in a given number of minutes.

    python3 scripts/detector/train.py --packs DIR --out DIR --minutes 12
    python3 scripts/detector/train.py --packs DIR --out DIR --minutes 1 --device cpu --dry    # does it run at all?

--packs: folders with index.csv and files or *.tar (packs.py), or folders of such folders. Rows of fold `fit` are
learned from, those of fold `val` (other sources) are only looked at. Nothing is chosen by the validation: the weights
kept are the running mean of the last ones. Writes OUT/{small,wide}.pt as it goes and OUT/log.jsonl; autoencoders in
OUT/autoencoders.pt are used again. Longer than one command may run: --models small, then wide, or --start.

First autoencoders are trained on the real regions for a moment, whose reconstructions are fakes too. Then each model:
single crops, every source alike in the draw; then bags of crops of one image, judged by the mean of their logits, so
that a crop without evidence learns to say 0; each bag is seen after two encodings, which should not matter.
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
from augment import MARGIN, augmented, bands, recipe

MODELS = {"small": model.Small, "wide": model.Wide}
SHARES = {"small": 0.45, "wide": 0.55}
SMOOTHING = 0.03


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--packs", nargs="+", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--minutes", type=float, required=True)
    p.add_argument("--device", default="cuda")
    p.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    p.add_argument("--start", help="folder of weights to go on from")
    p.add_argument("--batch", type=int, default=252, help="crops; a multiple of twice --bag")
    p.add_argument("--size", type=int, default=192, help="of a training crop; many regions are smaller than 256")
    p.add_argument("--bag", type=int, default=6)
    p.add_argument("--steady", type=float, default=0.05, help="weight of the difference between two encodings")
    p.add_argument("--bag_share", type=float, default=0.3, help="of a model's time, for bags")
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
        raise SystemExit(f"--packs: no index.csv in {', '.join(given)}")
    return found


class Mean:
    """Running mean of weights and buffers."""

    def __init__(self, net, decay=0.999):
        self.net, self.decay, self.step = net, decay, 0
        self.state = {k: v.detach().clone() for k, v in net.state_dict().items()}

    @torch.no_grad()
    def update(self):
        self.step += 1
        keep = min(self.decay, self.step / (self.step + 10))
        floats = [(m, v) for (k, m), v in zip(self.state.items(), self.net.state_dict().values()) if v.is_floating_point()]
        torch._foreach_lerp_([m for m, _ in floats], [v for _, v in floats], 1 - keep)


class Validation:
    """Regions of unseen sources, cut as the product cuts; the mean over crops."""

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
        return {"auroc": metrics.auroc(label, score),
                "by_source": float(np.mean([a for a, _ in groups["source"].values()])),
                **{name: {k: round(a, 3) for k, (a, _) in g.items()} for name, g in groups.items()}}


def optimiser_of(net, args):
    decayed = [p for p in net.parameters() if p.ndim > 1]
    plain = [p for p in net.parameters() if p.ndim <= 1]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
                             lr=args.rate, fused=args.device == "cuda")


def rate_at(share, args, step):
    """Warmup by steps, cosine by the clock; the bags go on at a tenth."""
    first = 1 - args.bag_share
    if share < first:
        return args.rate * min(1, (step + 1) / 100) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share / first)))
    return args.rate * 0.1 * (1 - (share - first) / args.bag_share)


def views_of(regions, weights, args, bag, times):
    """Which images (B,), and `bag` training views of each, `times` over: (times · B · bag, size, size, 3).

    The later times show the same windows after another draw of everything but the scale.
    """
    which, pixels = [], [[] for _ in range(times)]
    for count, low, high in bands(max(4, args.batch // (bag * times)), args.lowest_scale):
        draw = recipe(count, args.strength, (low, high), args.device)
        wide = args.size + MARGIN
        of, windows, crops = packs.drawn(regions, weights, draw, bag, wide, math.ceil(wide / low))
        which.append(of)
        for i in range(times):
            if i > 0:
                other = recipe(count, args.strength, (low, high), args.device)
                crops = {k: v.repeat_interleave(bag) for k, v in other.items()} | {"scale": crops["scale"]}
            pixels[i].append(augmented(windows, crops, args.size))
    return torch.cat(which), torch.cat([p for part in pixels for p in part])


def loss_of(run, regions, weights, args, bag):
    """Binary cross-entropy of the crops; of bags also that of their means, which shall not hang on the encoding."""
    times = 1 if bag == 1 else 2
    with torch.no_grad():
        which, pixels = views_of(regions, weights, args, bag, times)
    with torch.autocast(args.device, torch.bfloat16):
        logits = run(pixels).float().view(times, -1, bag)
    target = (regions.label[which] * (1 - 2 * SMOOTHING) + SMOOTHING).expand(times, -1)
    single = F.binary_cross_entropy_with_logits(logits, target[:, :, None].expand(-1, -1, bag))
    if bag == 1:
        return single
    means = logits.mean(2)
    apart = (means[0] - means[1]).square().mean()
    return 0.3 * single + 0.7 * F.binary_cross_entropy_with_logits(means * 2, target) + args.steady * apart


def compiled(net, args):
    """The compiled network where that works, itself elsewhere."""
    if args.no_compile or args.device != "cuda":
        return net
    try:
        fast = torch.compile(net)
        with torch.autocast("cuda", torch.bfloat16):
            fast(torch.zeros(args.batch, args.size, args.size, 3, dtype=torch.uint8, device="cuda")).sum().backward()
        net.zero_grad(set_to_none=True)
        return fast
    except Exception as error:  # a machine without a compiler still trains
        print(f"not compiled: {type(error).__name__}: {str(error)[:200]}", flush=True)
        return net


def trained(name, fit, weights, validation, args, minutes):
    begun, step, seen, average, looked = time.time(), 0, 0, 0.0, 0
    torch.manual_seed(args.seed)
    net = MODELS[name]()
    if args.start:
        net.load_state_dict(torch.load(os.path.join(args.start, f"{name}.pt"), weights_only=True))
    net = net.to(args.device, memory_format=torch.channels_last)
    kept = MODELS[name]().to(args.device)
    run = compiled(net, args)
    optimiser, mean = optimiser_of(net, args), Mean(net)
    while (share := (time.time() - begun) / (60 * minutes)) < 1:
        bag = 1 if share < 1 - args.bag_share else args.bag
        for group in optimiser.param_groups:
            group["lr"] = rate_at(share, args, step)
        net.train()
        loss = loss_of(run, fit, weights, args, bag)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        optimiser.step()
        mean.update()
        step, seen = step + 1, seen + args.batch
        if step % 20 == 1:
            average = loss.item() if step == 1 else 0.8 * average + 0.2 * loss.item()
        if step in (50, 500):
            print(f"{name}: {seen / (time.time() - begun):.0f} crops a second, loss {average:.3f}", flush=True)
        if share * 8 >= looked + 1:
            looked = int(share * 8)
            report(name, kept, mean, validation, args, {"step": step, "seen": seen, "seconds": round(time.time() - begun),
                                                        "loss": round(average, 4), "bag": bag})
    report(name, kept, mean, validation, args, {"step": step, "seen": seen, "loss": round(average, 4), "end": True})


def report(name, kept, mean, validation, args, line):
    """Looks at the validation and writes the weights: a run that is cut short leaves something."""
    kept.load_state_dict(mean.state)
    line = {"model": name, **line, **validation(kept)}
    with open(os.path.join(args.out, "log.jsonl"), "a") as f:
        f.write(json.dumps(line) + "\n")
    print(json.dumps({k: v for k, v in line.items() if k not in ("content", "family")}), flush=True)
    path = os.path.join(args.out, f"{name}.pt")
    torch.save({k: v.cpu() for k, v in mean.state.items()}, path + ".tmp")
    os.replace(path + ".tmp", path)


def main():
    args = arguments()
    os.makedirs(args.out, exist_ok=True)
    torch.backends.cudnn.allow_tf32 = False  # the fixed filters need all their digits; the rest is bf16 anyway
    begun, where = time.time(), folders(args.packs)
    limit = 60 if args.dry else 0
    if args.dry:
        args.batch, args.bag = 12, 2
    fit = packs.load(where, args.device, lambda r: r.get("fold") == "fit", 0.25, args.workers, limit)
    val = packs.load(where, args.device, lambda r: r.get("fold") == "val", 0.0, args.workers, limit)
    print(f"{len(fit)} regions to learn from, {len(val)} to look at, {time.time() - begun:.0f} s", flush=True)
    if args.recon > 0:
        real = packs.chosen(fit, [i for i, r in enumerate(fit.rows) if r["label"] != "ai"])
        seconds = 60 * min(args.recon_minutes, args.minutes / 6)
        nets = autoencoders.kept(real, seconds, args.device, os.path.join(args.out, "autoencoders.pt"), 2 if args.dry else 48)
        fakes = autoencoders.reconstructions(real, nets, args.device)
        fit = packs.joined(fit, fakes)
        print(f"{len(fakes)} reconstructions, {time.time() - begun:.0f} s", flush=True)
    weights = packs.balanced(fit, args.recon, args.content)
    left = args.minutes - (time.time() - begun) / 60
    total = sum(SHARES[name] for name in args.models)
    validation = Validation(val)
    torch.backends.cudnn.benchmark = True  # not before: regions that are reconstructed have many sizes
    for name in args.models:
        trained(name, fit, weights, validation, args, max(0.2, left * SHARES[name] / total))


if __name__ == "__main__":
    main()

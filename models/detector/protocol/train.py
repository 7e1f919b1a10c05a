"""Trains one part of the protocol on a GPU: the networks of an outer fold, or those to ship.

Nothing is chosen by looking: the number of seconds is given, the last running mean of the weights is kept, crops are averaged.
A fold answers for its tested images with plain logits; what is fitted on logits comes later (policy.py).
"""
import os
import time

import numpy as np
import torch

from images import cache
from images.regions import balanced
from networks import train_crops, train_whole, views
from protocol import files, policy

KNOWN = 6000  # training images that tell how features spread


@torch.no_grad()
def outputs(net, regions, batch=256):
    """(mean logit of the crops of each region (R,), mean features (R, D))."""
    net.eval()
    plans = [views.plan_crops(int(w), int(h)) for w, h in zip(regions.width.tolist(), regions.height.tolist())]
    of = torch.tensor([i for i, plan in enumerate(plans) for _ in plan], device=regions.device)
    x, y = (torch.tensor([c[a] for plan in plans for c in plan], device=regions.device) for a in (0, 1))
    count = torch.bincount(of, minlength=len(regions)).double()
    logits, features = torch.zeros(len(regions), device=of.device, dtype=torch.double), None
    for part in torch.arange(len(of), device=of.device).split(batch):
        seen = net.features(regions.windows(of[part], y[part], x[part], views.CROP)).float()
        if features is None:
            features = torch.zeros(len(regions), seen.shape[1], device=of.device)
        features.index_add_(0, of[part], seen)
        logits.index_add_(0, of[part], net.head(seen)[:, 0].double())
    return (logits / count).cpu().numpy(), (features.double() / count[:, None]).cpu().numpy()


def learn(members, fit, args, seconds):
    """Trains all members on the same views for so many seconds."""
    batches = train_crops.Views(fit, balanced(fit, args.recon, args.content), args)
    begun, step = time.time(), 0
    while (share := (time.time() - begun) / seconds) < 1 or step < args.least_steps:
        batch = batches()
        for member in members:
            member.learn(batch, fit, member.share * train_crops.rate_at(min(share, 1), args, step), step)
        step += 1
        if step in (50, 500) or step % 2000 == 0:
            print(f"{step} steps, {time.time() - begun:.0f} s, loss {[round(m.average, 3) for m in members]}", flush=True)
    return step


def fakes_of(rows, where):
    """Rows of the fakes that were made of these rows."""
    known = {r["file"]: r for r in rows}
    return [{**known[file], "file": each, "label": "ai", "family": "recon", "source": f"recon-{name}"}
            for each in where for name, _, file in [each.partition("|")] if file in known]


def changed(rows, change, where):
    """Rows after a change of their pixels; `of` is the file that was changed."""
    return [{**r, "file": f"{change}|{r['file']}", "of": r["file"]} for r in rows if f"{change}|{r['file']}" in where]


def part(args, rows, roles, folder, seconds):
    """Trains on the rows whose role is `train`, answers for those whose role is `test`; without roles, trains on all."""
    os.makedirs(folder, exist_ok=True)
    begun = time.time()
    torch.backends.cudnn.allow_tf32 = False  # the fixed filters need all their digits; the rest is bf16 anyway
    if not args.networks:
        return whole_part(args, rows, roles, folder)
    crops, after, fakes = (cache.stored(args.cache, prefix) for prefix in ("crops_", "after_", "fakes"))
    known = [r for r in rows if r["file"] in crops]
    train_rows = [r for r in known if not roles or roles.get(r["file"]) == "train"]
    made = fakes_of(train_rows, fakes)
    fit = cache.regions(train_rows + made, {**crops, **fakes}, args.device)
    print(f"{len(train_rows)} regions and {len(made)} fakes to learn from, {time.time() - begun:.0f} s", flush=True)
    small = train_whole.learned(args, rows, roles)
    torch.backends.cudnn.benchmark = True  # not before: what is whole has one size, what is tested many
    members = [train_crops.Network(name, args) for name in args.networks]
    steps = learn(members, fit, args, max(1, seconds - (time.time() - begun)))
    torch.backends.cudnn.benchmark = False
    nets, spread = {}, {}
    for member in members:
        nets[member.name] = member.kept()
        few = list(range(0, len(train_rows), max(1, len(train_rows) // KNOWN)))
        _, features = outputs(nets[member.name], fit.chosen(few))
        spread[member.name] = policy.spread_and_kinds(features, np.array([train_rows[i]["content"] for i in few]))
    del fit
    torch.save({m.name: {k: v.cpu() for k, v in m.mean.state.items()} for m in members}, os.path.join(folder, "weights.pt"))
    torch.save(small.state(), os.path.join(folder, "whole.pt"))
    files.write_json(os.path.join(folder, "answers.json"), {"steps": steps, **tested(args, nets, small, spread, known, roles, crops, after)})
    files.write_json(os.path.join(folder, "spread.json"), spread)
    print(f"{os.path.basename(folder)}: {steps} steps, {time.time() - begun:.0f} s", flush=True)


def whole_part(args, rows, roles, folder):
    """The network for the whole image alone. The cache has whole images; re-encoded regions are there made small."""
    after = cache.stored(args.cache, "after_")
    small = train_whole.learned(args, rows, roles)
    torch.save(small.state(), os.path.join(folder, "whole.pt"))
    known = [r for r in small.pictures.rows if roles and roles.get(r["file"]) == "test"]
    out = {"files": {"clean": [r["file"] for r in known]}, "members": {}, "whole": {"clean": small.answers(known) if known else {}}}
    for change in cache.CHANGES:
        if mine := changed(known, change, after):
            out["files"][change] = [r["of"] for r in mine]
            out["whole"][change] = small.answers_of(cache.regions(mine, after, args.device))
    files.write_json(os.path.join(folder, "answers.json"), out)
    files.write_json(os.path.join(folder, "spread.json"), {})


def tested(args, nets, small, spread, known, roles, crops, after):
    """{files, members, whole}: what the networks say of the tested images, as they are and after each change."""
    rows = [r for r in known if roles and roles.get(r["file"]) == "test"]
    out = {"files": {}, "members": {name: {} for name in nets}, "whole": {}}
    for change in ("clean", *cache.CHANGES):
        mine = rows if change == "clean" else changed(rows, change, after)
        if not mine:
            continue
        regions = cache.regions(mine, crops if change == "clean" else after, args.device)
        out["files"][change] = [r.get("of", r["file"]) for r in mine]
        out["whole"][change] = small.answers(mine) if change == "clean" else small.answers_of(regions)
        for name, net in nets.items():
            out["members"][name][change] = policy.seen(spread[name], *outputs(net, regions))
    return out

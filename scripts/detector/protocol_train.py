"""Trains one part of the protocol on a GPU: the networks of an outer fold, or those to ship.

Nothing is chosen by looking: the number of seconds is given, the last running mean of the weights is kept, crops are averaged.
A fold answers for its tested images with plain logits; what is fitted on logits comes later (protocol_policy.py).
"""
import json
import os
import time

import numpy as np
import torch

import packs
import protocol_cache as cache
import protocol_policy as policy
import protocol_whole
import train
import views

KNOWN = 6000  # training images that tell how features spread


class Member(train.Network):
    """A network whose weights are a mean over the last thousand steps, in plain operations that every version of PyTorch has."""

    def __init__(self, name, args):
        super().__init__(name, args)
        self.mean = Smoothed(self.net)
        self.means = {"short": self.mean}

    def state(self):
        return {k: v.detach().clone() for k, v in self.mean.state.items()}


class Smoothed(train.Mean):
    def __init__(self, net):
        super().__init__(net, 1000)

    @torch.no_grad()
    def update(self):
        self.step += 1
        if self.step % self.EVERY == 0:
            share = min(1, self.EVERY / max(1, min(self.steps, self.step / 10)))
            for mean, value in zip(self.means, self.values):
                mean.lerp_(value, share)


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
    batches = train.Views(fit, packs.balanced(fit, args.recon, args.content), args)
    begun, step = time.time(), 0
    while (share := (time.time() - begun) / seconds) < 1 or step < args.least_steps:
        batch = batches()
        for member in members:
            member.learn(batch, fit, train.rate_at(min(share, 1), args, step), step)
        step += 1
        if step in (50, 500) or step % 2000 == 0:
            print(f"{step} steps, {time.time() - begun:.0f} s, loss {[round(m.average, 3) for m in members]}", flush=True)
    return step


def with_fakes(regions, folder):
    """The training regions, and the fakes that were made of their real ones."""
    where = cache.stored(folder, "fakes")
    rows = {r["file"]: r for r in regions.rows}
    fakes = [{**rows[file], "file": each, "label": "ai", "family": "recon", "source": f"recon-{name}"}
             for each in where for name, _, file in [each.partition("|")] if file in rows]
    return packs.joined(regions, cache.regions(fakes, where, regions.device)) if fakes else regions


def loaded(args, rows):
    """(regions, {condition: regions}) of the rows that have pixels."""
    regions = cache.regions(rows, cache.stored(args.cache, "crops_"), args.device)
    where, after = cache.stored(args.cache, "after_"), {}
    for name in cache.CHANGES:
        mine = [{**r, "file": f"{name}|{r['file']}", "of": r["file"]} for r in regions.rows if f"{name}|{r['file']}" in where]
        if mine:
            after[name] = cache.regions(mine, where, args.device)
    return regions, after


def part(args, rows, roles, folder, seconds):
    """Trains on the rows whose role is `train`, answers for those whose role is `test`; without roles, trains on all."""
    os.makedirs(folder, exist_ok=True)
    begun = time.time()
    torch.backends.cudnn.allow_tf32 = False  # the fixed filters need all their digits; the rest is bf16 anyway
    regions, after = loaded(args, rows)
    role = [roles.get(r["file"]) if roles else "train" for r in regions.rows]
    index = {name: [i for i, each in enumerate(role) if each == name] for name in ("train", "test")}
    fit = with_fakes(packs.chosen(regions, index["train"]), args.cache)
    print(f"{len(index['train'])} regions and {len(fit) - len(index['train'])} fakes to learn from, {len(index['test'])} to test, "
          f"{time.time() - begun:.0f} s", flush=True)
    small = protocol_whole.learned(args, rows, roles)
    torch.backends.cudnn.benchmark = True  # not before: what is whole has one size, what is tested many
    members = [Member(name, args) for name in args.networks]
    steps = learn(members, fit, args, max(1, seconds - (time.time() - begun)))
    torch.backends.cudnn.benchmark = False
    weights, spread, answers = {}, {}, {}
    known = index["train"][:: max(1, len(index["train"]) // KNOWN)]
    tested = packs.chosen(regions, index["test"]) if index["test"] else None
    for member in members:
        member.kept.load_state_dict(member.state())
        weights[member.name] = {k: v.cpu() for k, v in member.state().items()}
        _, features = outputs(member.kept, packs.chosen(regions, known))
        spread[member.name] = policy.spread_and_kinds(features, np.array([regions.rows[i]["content"] for i in known]))
        if tested:
            answers[member.name] = {"clean": policy.seen(spread[member.name], *outputs(member.kept, tested))}
            for name, changed in after.items():
                mine = of_test(changed, roles)
                if mine:
                    answers[member.name][name] = policy.seen(spread[member.name], *outputs(member.kept, packs.chosen(changed, mine)))
    whole = {"clean": small.answers(regions.rows[i] for i in index["test"])} if tested else {}
    for name, changed in after.items():
        mine = of_test(changed, roles)
        if tested and mine:
            whole[name] = small.answers_of(packs.chosen(changed, mine))
    torch.save(weights, os.path.join(folder, "weights.pt"))
    torch.save(small.state(), os.path.join(folder, "whole.pt"))
    files = {"clean": [regions.rows[i]["file"] for i in index["test"]],
             **{n: [c.rows[i]["of"] for i in of_test(c, roles)] for n, c in after.items()}} if tested else {}
    write_json(os.path.join(folder, "answers.json"), {"steps": steps, "files": files, "members": answers, "whole": whole})
    write_json(os.path.join(folder, "spread.json"), spread)
    print(f"{os.path.basename(folder)}: {steps} steps, {time.time() - begun:.0f} s", flush=True)


def of_test(regions, roles):
    return [i for i, r in enumerate(regions.rows) if roles and roles.get(r["of"]) == "test"]


def write_json(path, value):
    with open(path + ".tmp", "w") as f:
        json.dump(value, f)
        f.write("\n")
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".tmp", path)

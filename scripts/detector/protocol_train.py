"""Trains and scores the folds on one GPU: networks are compiled once and begin anew for each fold.

What a fold chooses (which look, which pooling, which members), it chooses by its `choose` rows, whose sources and
generators are neither in its training nor in its test.
"""
import math
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

import autoencoders
import calibrate
import metrics
import packs
import protocol_policy as policy
import train
import views
from conditions import CONDITIONS, SWAPS

LOOKS = (0.6, 0.8, 1.0)
RECONSTRUCTIONS = 2000
RECON_SHARE = 0.2  # of a fold's time


class Member(train.Network):
    """A network that can begin anew without being compiled again."""

    def __init__(self, name, args):
        super().__init__(name, args)
        self.begin_state = {k: v.detach().clone() for k, v in self.net.state_dict().items()}

    def begin(self):
        self.net.load_state_dict(self.begin_state)
        self.optimiser = train.optimiser_of(self.net, self.args)
        self.mean, self.average = Smoothed(self.net), 0.0
        self.means = {"short": self.mean}

    def now(self):
        return {k: v.detach().clone() for k, v in self.mean.state.items()}


class Smoothed(train.Mean):
    """The mean over the last thousand steps, in plain operations that every version of PyTorch has."""

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
    """(logits of the crops of each region, mean features (R, D))."""
    net.eval()
    plans = [views.plan_crops(int(w), int(h)) for w, h in zip(regions.width.tolist(), regions.height.tolist())]
    of = torch.tensor([i for i, plan in enumerate(plans) for _ in plan], device=regions.device)
    x, y = (torch.tensor([c[a] for plan in plans for c in plan], device=regions.device) for a in (0, 1))
    logits, features = [], []
    for part in torch.arange(len(of), device=of.device).split(batch):
        windows = regions.windows(of[part], y[part], x[part], views.CROP)
        seen = net.features(windows)
        features.append(seen)
        logits.append(net.head(seen)[:, 0])
    logits, features = torch.cat(logits), torch.cat(features).float()
    total = torch.zeros(len(regions), features.shape[1], device=of.device).index_add_(0, of, features)
    count = torch.bincount(of, minlength=len(regions))
    each = np.split(logits.float().cpu().numpy(), np.cumsum([len(p) for p in plans])[:-1])
    return each, (total / count[:, None]).cpu().numpy().astype(np.float64)


def changed(regions, folder_rows, change, workers):
    """The same rows after a change of their pixels."""
    def one(row):
        return change(packs.opened((*row["at"], 0)))
    with ThreadPoolExecutor(workers) as pool:
        return packs.Regions(folder_rows, list(pool.map(one, folder_rows)), regions.device)


def prepared_conditions(regions, workers):
    """{condition: (indices into regions, Regions)} of the wide rows; swaps of the real ones alone."""
    wide = [i for i, r in enumerate(regions.rows) if r["wide"] == "1"]
    real = [i for i in wide if regions.rows[i]["label"] == "real"]
    jobs = {**{n: (wide, c) for n, c in CONDITIONS.items() if n != "clean"}, **{f"swap {n}": (real, c) for n, c in SWAPS.items()}}
    return {n: (mine, changed(regions, [regions.rows[i] for i in mine], c, workers)) for n, (mine, c) in jobs.items() if mine}


def arrays(rows):
    return {"label": np.array([float(r["label"] == "ai") for r in rows]), "source": np.array([r["source"] for r in rows]),
            "content": np.array([r["content"] for r in rows])}


def conditional(label, score, content):
    """The mean of the AUROC inside each kind of content; over all where no kind has both labels."""
    inside = [metrics.auroc(label[content == c], score[content == c]) for c in sorted(set(content.tolist()))]
    inside = [a for a in inside if not math.isnan(a)]
    return float(np.mean(inside)) if inside else metrics.auroc(label, score)


def learn(members, fit, args, seconds, on_look=None):
    """Trains all members on the same views for so many seconds."""
    batches = train.Views(fit, packs.balanced(fit, args.recon, args.content), args)
    for member in members:
        member.begin()
    begun, step, looked = time.time(), 0, 0
    while (share := (time.time() - begun) / seconds) < 1 or step < args.least_steps:
        batch = batches()
        for member in members:
            member.learn(batch, fit, train.rate_at(min(share, 1), args, step), step)
        step += 1
        while on_look and looked < len(LOOKS) - 1 and share >= LOOKS[looked]:
            on_look(looked)
            looked += 1
    if on_look:
        on_look(len(LOOKS) - 1)
    return step


def with_fakes(regions, indices, args, seconds, path):
    """The training rows, and reconstructions of their real ones by autoencoders that saw these alone."""
    fit = packs.chosen(regions, indices)
    if args.recon <= 0:
        return fit
    real = packs.chosen(regions, [i for i in indices if regions.rows[i]["label"] == "real"])
    nets = autoencoders.kept(real, max(1, seconds), args.device, path, 2 if args.dry else 64)
    few = np.random.default_rng(2).permutation(len(real))[: 20 if args.dry else RECONSTRUCTIONS].tolist()
    return packs.joined(fit, autoencoders.reconstructions(packs.chosen(real, few), nets, args.device))


def best_look(member, states, regions, chooser):
    """The state with the best AUROC inside content on the rows that choose: (state, logits, features)."""
    best = None
    for state in states:
        member.kept.load_state_dict(state)
        logits, features = outputs(member.kept, regions)
        value = conditional(chooser["label"], np.array([z.mean() for z in logits]), chooser["content"])
        if best is None or value > best[0]:
            best = (value, state, logits, features)
    return best[1:]


def fold(members, regions, roles, conditions, args, seconds, folder):
    """Trains, chooses and scores one fold. Returns rows of answers for the tested images, and what the fold has learned."""
    os.makedirs(folder, exist_ok=True)
    index = {role: [i for i, r in enumerate(regions.rows) if roles.get(r["file"]) == role] for role in ("train", "choose", "test")}
    begun = time.time()
    fit = with_fakes(regions, index["train"], args, seconds * RECON_SHARE, os.path.join(folder, "autoencoders.pt"))
    states = {m.name: [] for m in members}
    steps = learn(members, fit, args, max(1, seconds - (time.time() - begun)),
                  lambda _: [states[m.name].append(m.now()) for m in members])
    chooser = arrays([regions.rows[i] for i in index["choose"]])
    made, weights = {}, {}
    for member in members:
        state, logits, features = best_look(member, states[member.name], packs.chosen(regions, index["choose"]), chooser)
        pooling, _ = calibrate.best_pooling(logits, chooser["label"], chooser["source"])
        pooled = np.array([calibrate.pool(z, pooling) for z in logits])
        member.kept.load_state_dict(state)
        known = index["train"][:: max(1, len(index["train"]) // 6000)]
        _, seen = outputs(member.kept, packs.chosen(regions, known))
        train_part = {"features": seen, "content": np.array([regions.rows[i]["content"] for i in known])}
        made[member.name] = policy.learned(train_part, {**chooser, "pooled": pooled, "features": features}, pooling)
        made[member.name]["choose"] = policy.applied(made[member.name], pooled, features)
        weights[member.name] = state
    names = best_members(made, chooser)
    score, unlike = joined([made[n]["choose"] for n in names])
    threshold = policy.threshold_of(score, chooser["label"], unlike)
    torch.save({n: {k: v.cpu() for k, v in weights[n].items()} for n in names}, os.path.join(folder, "weights.pt"))
    rows = tested(members, names, made, weights, regions, index["test"], conditions, threshold)
    print(f"{os.path.basename(folder)}: {steps} steps, {time.time() - begun:.0f} s, {len(rows)} images tested", flush=True)
    return rows, {"members": names, "threshold": threshold, "limits": {n: made[n]["unlike"]["limit"] for n in names},
                  "pooling": {n: made[n]["pooling"] for n in names}}


def joined(answers):
    """The mean score; unlike where every member says so."""
    return np.mean([s for s, _ in answers], 0), np.all([u for _, u in answers], 0)


def best_members(made, chooser):
    """All members, unless one alone is better by half a point."""
    names = list(made)
    value = {n: conditional(chooser["label"], made[n]["choose"][0], chooser["content"]) for n in names}
    both = conditional(chooser["label"], joined([made[n]["choose"] for n in names])[0], chooser["content"])
    best = max(names, key=lambda n: value[n])
    return [best] if value[best] > both + 0.005 else names


def answers_of(members, names, made, weights, regions):
    """(score, unlike, {member: pooled logits}) of regions by the fold's members."""
    each, logits = [], {}
    for member in (m for m in members if m.name in names):
        member.kept.load_state_dict(weights[member.name])
        z, features = outputs(member.kept, regions)
        logits[member.name] = np.array([calibrate.pool(one, made[member.name]["pooling"]) for one in z])
        each.append(policy.applied(made[member.name], logits[member.name], features))
    return (*joined(each), logits)


def tested(members, names, made, weights, regions, index, conditions, threshold):
    score, unlike, logits = answers_of(members, names, made, weights, packs.chosen(regions, index))
    place = {i: n for n, i in enumerate(index)}
    rows = [{**{k: v for k, v in regions.rows[i].items() if k != "at"}, "score": float(score[n]), "unlike": bool(unlike[n]),
             "called": threshold is not None and bool(score[n] >= threshold) and not unlike[n], "conditions": {},
             "logits": {name: float(z[n]) for name, z in logits.items()}} for n, i in enumerate(index)]
    for name, (mine, changed_regions) in conditions.items():
        which = [n for n, i in enumerate(mine) if i in place]
        if which:
            after, _, _ = answers_of(members, names, made, weights, packs.chosen(changed_regions, which))
            for n, value in zip(which, after):
                rows[place[mine[n]]]["conditions"][name] = float(value)
    return rows

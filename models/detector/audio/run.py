"""The speech detector under the protocol: outer folds by source, line of systems and repository; every choice inside; scored once.

    python3 models/detector/audio/run.py plan --pack PACK.npz                 # sizes of the folds; looks at no clip
    python3 models/detector/audio/run.py run --pack PACK.npz --measured DIR --out OUT
    python3 models/detector/audio/run.py report --pack PACK.npz --out OUT     # once for each data version
    python3 models/detector/audio/run.py export --pack PACK.npz --measured DIR --out OUT --models models
    python3 models/detector/audio/run.py evaluate --data DIR --models models  # the weights on a folder with index.csv
"""
import argparse
import collections
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import torch

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)  # the folders beside this one
from audio import export as exporting, figures, machine, measure
from audio.augment import CONDITIONS
from protocol import calibrate, files, folds, ledger, metrics

WORTH = 0.003  # of the inner equal error: what a further member must save
MOST_MEMBERS = 3
OUTER = 5
INNER = 2


def index_of(pack):
    with np.load(pack) as f:
        return json.loads(str(f["index"]))


def planned(pack, ledger_path=None):
    rows = index_of(pack)
    with open(os.path.join(ROOT, "sources", "kept_apart.txt")) as f:
        kept = {line.strip() for line in f}
    made = folds.planned(folds.checked(rows, kept), OUTER)
    if ledger_path and any(e["data_version"] == made["version"] for e in ledger.entries(ledger_path)):
        raise SystemExit(f"The outer folds of the data version {made['version'][:12]} were scored before. Change the data first.")
    return rows, made


def plan(args):
    rows, made = planned(args.pack)
    print(f"data version {made['version']}")
    for k, roles in enumerate(made["folds"]):
        tested = [r for r in rows if roles.get(r["file"]) == "test"]
        lines = sorted({r["family"] for r in tested if r["label"] == "ai"})
        print(f"fold {k + 1}: {dict(collections.Counter(r['label'] for r in tested))}, {', '.join(lines)}")


def inner_figure(label, logits, changed, source):
    """Less is better: the equal error of clips and of their changed copies, sources alike and clips alike."""
    weight = metrics.source_weights(label, source)
    return float(np.mean([metrics.equal_error(label, z, w) for z in (logits, changed) for w in (None, weight)]))


def inner_parts(rows):
    """[(what a machine learns from, what it answers for)] as indices: the two share no source, line or repository."""
    part, index = folds.divided(rows, INNER), {id(row): i for i, row in enumerate(rows)}
    out = []
    for k in range(INNER):
        asked = [row for row, p in zip(rows, part) if p == k]
        known = folds.apart_from([row for row, p in zip(rows, part) if p != k], asked)
        out.append(tuple(np.array([index[id(row)] for row in mine]) for mine in (known, asked)))
    return out


def inner_logits(candidate, data, clips, parts):
    """(clips, changed copies), each from a machine that knows neither source nor line."""
    out = np.zeros((2, len(clips)))
    for known, asked in parts:
        made = machine.learned(candidate, data, clips[known])
        for copy in (0, 1):
            out[copy, asked] = machine.answered(made, data.statistics[copy, clips[asked]])
    return out


def mean_of(members, logits, scales):
    return np.mean([logits[m] / scales[m] for m in members], 0)


def chosen_members(tried, scales, label, source):
    """(names, figure): the best candidate, then others while their mean with it is better by WORTH."""
    members, best = [], np.inf
    while len(members) < MOST_MEMBERS:
        figure = {name: inner_figure(label, *mean_of([*members, name], tried, scales), source)
                  for name in tried if name not in members}
        name = min(figure, key=figure.get)
        if figure[name] > best - (WORTH if members else 0):
            break
        members, best = [*members, name], figure[name]
    return members, best


def fold(job):
    """Chooses, trains and calibrates inside, then answers for the tested clips; prints nothing of these."""
    pack, measured, k = job
    rows, made = planned(pack)
    data, conditions = loaded(rows, measured)
    roles = made["folds"][k]
    test = np.array([i for i, r in enumerate(rows) if roles.get(r["file"]) == "test"])
    rest = np.array([i for i, r in enumerate(rows) if roles.get(r["file"]) == "train"])
    parts = inner_parts([rows[i] for i in rest])
    label, source = data.label[rest], data.source[rest]
    tried = {name: inner_logits(c, data, rest, parts) for name, c in machine.CANDIDATES.items()}
    inside = {name: round(inner_figure(label, *z, source), 4) for name, z in tried.items()}
    scales = {name: float(z[0].std()) for name, z in tried.items()}
    members, figure = chosen_members(tried, scales, label, source)
    print(f"fold {k + 1}, inside: {inside}; chosen {members} with {figure:.4f}", flush=True)
    mean = mean_of(members, tried, scales)[0]
    t, table = calibrate.fitted(mean, label, source)
    limit = folds.ai_threshold(list(zip(calibrate.applied(mean, t, table).tolist(), label.tolist())))
    learned = {m: machine.learned(machine.CANDIDATES[m], data, rest) for m in members}

    def scored(x):
        logits = mean_of(members, {m: machine.answered(learned[m], x) for m in members}, scales)
        return logits, calibrate.applied(logits, t, table)

    about = ("file", "label", "source", "family", "content")
    out = [{**{n: rows[i][n] for n in about}, "fold": k, "logit": float(z), "score": float(s),
            "called": limit is not None and bool(s >= limit), "conditions": {}}
           for i, z, s in zip(test, *scored(data.statistics[0, test]))]
    for name, statistics in conditions.items():
        there = np.flatnonzero(np.isfinite(statistics[test]).all(1))
        if not len(there):
            continue
        for i, s in zip(there, scored(statistics[test[there]])[1]):
            out[i]["conditions"][name] = float(s)
    return {"rows": out, "about": {"inside": inside, "members": members, "figure": round(figure, 4), "limit": limit,
                                   "scales": {m: scales[m] for m in members}}}


def loaded(rows, folder):
    """(the clips and their training copies, {condition: statistics})"""
    def read(name):
        return np.load(os.path.join(folder, f"statistics_{name}.npy"))

    copies = np.stack([read(name) for name in measure.NAMES if name not in CONDITIONS])
    data = machine.Data(copies, np.array([r["label"] == "ai" for r in rows]), np.array([r["source"] for r in rows]))
    return data, {name: read(name) for name in CONDITIONS}


def run(args):
    _, made = planned(args.pack, args.ledger)
    os.makedirs(args.out, exist_ok=True)
    paths = [os.path.join(args.out, f"fold_{k + 1}.json") for k in range(len(made["folds"]))]
    left = [k for k, path in enumerate(paths) if not os.path.exists(path)]
    with ProcessPoolExecutor(args.workers) as pool:
        for k, answer in zip(left, pool.map(fold, [(args.pack, args.measured, k) for k in left])):
            files.write_json(paths[k], answer)


def answers(args):
    _, made = planned(args.pack)
    return made["version"], [files.read_json(os.path.join(args.out, f"fold_{k + 1}.json")) for k in range(len(made["folds"]))]


def report(args):
    version, done = answers(args)
    rows = [row for each in done for row in each["rows"]]
    about = {"clips": len(rows), "sources": len({r["source"] for r in rows})}
    inside = [each["about"] for each in done]
    ledger.published(args.out, args.ledger, version, about, lambda: {"inside": inside, **figures.figures(rows)}, figures.text_of)


def arguments():
    p = argparse.ArgumentParser()
    sub = p.add_subparsers(dest="command", required=True)
    for name in ("plan", "run", "report", "export", "evaluate"):
        c = sub.add_parser(name)
        if name != "evaluate":
            c.add_argument("--pack", required=True)
        if name in ("run", "export"):
            c.add_argument("--measured", required=True)
        if name in ("run", "report", "export"):
            c.add_argument("--out", required=True)
            c.add_argument("--ledger", default=os.path.join(ROOT, "ledger.jsonl"))
        if name == "run":
            c.add_argument("--workers", type=int, default=2)
        if name in ("export", "evaluate"):
            c.add_argument("--models", default="models")
        if name == "evaluate":
            c.add_argument("--data", required=True)
    return p.parse_args()


def export(args):
    version, done = answers(args)
    rows = index_of(args.pack)
    exporting.export(args, version, done, loaded(rows, args.measured)[0])


def main():
    torch.set_num_threads(1)
    args = arguments()
    commands = {"plan": plan, "run": run, "report": report, "export": export, "evaluate": exporting.evaluate}
    try:
        commands[args.command](args)
    except folds.Refused as refused:
        raise SystemExit(str(refused))


if __name__ == "__main__":
    main()

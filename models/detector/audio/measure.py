"""Statistics of the packed clips: as they are, as changed training copies, and after each tested condition.

    python3 models/detector/audio/measure.py --pack PACK.npz --out DIR

DIR gets statistics_NAME.npy [clips, statistics]. It goes on after an interruption. Conditions are measured on an eighth of the
clips; the rest of such statistics is not a number. OPENBLAS_NUM_THREADS=1 makes it faster.
"""
import argparse
import json
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the folders beside this one
from audio.augment import CONDITIONS, augmented
from audio.features import Statistics, windows

COPIES, SEED, AT_ONCE, EVERY = 2, 11, 16, 8
NAMES = ["clean", *(f"copy_{i + 1}" for i in range(COPIES)), *CONDITIONS]


def opened(path):
    with np.load(path) as pack:
        return pack["samples"], json.loads(str(pack["index"]))


def changed(name, x, number):
    if name == "clean":
        return x
    rng = np.random.default_rng([SEED, NAMES.index(name), number])
    return CONDITIONS[name](x, rng) if name in CONDITIONS else augmented(x, rng)


def measure(job):
    """The statistics of some clips: [(number, int16 samples), …]."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    name, clips = job
    heard = [windows(np.asarray(changed(name, x / np.float32(32768), number)))[0] for number, x in clips]
    with torch.no_grad():
        return Statistics()(torch.from_numpy(np.stack(heard))).numpy()


def measured(name, samples, index, pool, out):
    numbers = range(0, len(index), EVERY if name in CONDITIONS else 1)
    clips = [(i, samples[i, : index[i]["samples"]]) for i in numbers]
    jobs = [(name, clips[i:i + AT_ONCE]) for i in range(0, len(clips), AT_ONCE)]
    found = np.concatenate(list(pool.map(measure, jobs)))
    statistics = np.full((len(index), found.shape[1]), np.nan, np.float32)
    statistics[list(numbers)] = found
    np.save(os.path.join(out, f"statistics_{name}.tmp.npy"), statistics)
    os.replace(os.path.join(out, f"statistics_{name}.tmp.npy"), os.path.join(out, f"statistics_{name}.npy"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pack", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--workers", type=int, default=2)
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    samples, index = opened(args.pack)
    with ProcessPoolExecutor(args.workers) as pool:
        for name in NAMES:
            if not os.path.exists(os.path.join(args.out, f"statistics_{name}.npy")):
                measured(name, samples, index, pool, args.out)
                print(name, "measured", flush=True)


if __name__ == "__main__":
    main()

"""Decoded packs: the pixels of each tar in one file, so that every process of the training maps the same bytes.

    python3 models/detector/images/cache.py --packs PACKS --cache CACHE    # again whenever a pack has arrived

CACHE/NAME.u8 has the pixels of NAME.tar, CACHE/NAME.json the files in it with height and width. Regions that are wide enough
also pass the re-encodings of conditions.py, into CACHE/after_NAME.u8.
"""
import argparse
import io
import os
import sys
import tarfile
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the folders beside this one
from images.conditions import CONDITIONS, SWAPS
from images.regions import Regions
from protocol import files

CHANGES = {"as it is": CONDITIONS["clean"], **{n: c for n, c in CONDITIONS.items() if n != "clean"},
           **{f"swap {n}": c for n, c in SWAPS.items()}}


def decoded(job):
    """[(name, pixels)] of one file: itself, and what re-encodings make of it."""
    name, data, row = job
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    out = [(name, pixels)]
    if row and row["wide"] == "1":
        out += [(f"{change}|{name}", make(pixels)) for change, make in CHANGES.items()
                if row["label"] == "real" or not change.startswith("swap ")]
    return out


def write(cache, name, entries):
    if not entries:
        return
    with open(os.path.join(cache, f"{name}.u8"), "wb") as f:
        for _, pixels in entries:
            f.write(np.ascontiguousarray(pixels).data)
    files.write_json(os.path.join(cache, f"{name}.json"), [[n, p.shape[0], p.shape[1]] for n, p in entries])


def members(path):
    with tarfile.open(path) as tar:
        return [(m.name, tar.extractfile(m).read()) for m in tar]


def decode(folder, cache, workers):
    os.makedirs(cache, exist_ok=True)
    rows = {r["file"]: r for r in files.index_of(folder)}
    for tar in sorted(n[:-4] for n in os.listdir(folder) if n.endswith(".tar")):
        if os.path.exists(os.path.join(cache, f"{tar}.json")):
            continue
        with ProcessPoolExecutor(workers) as pool:
            jobs = [(n, d, rows.get(n)) for n, d in members(os.path.join(folder, f"{tar}.tar"))]
            made = list(pool.map(decoded, jobs, chunksize=16))
        write(cache, f"after_{tar}", [e for each in made for e in each[1:]])
        write(cache, tar, [each[0] for each in made])
        print(f"{tar}: {len(made)} files", flush=True)


def stored(cache, prefix):
    """{file: (path, offset in pixels, height, width)} of the caches whose names begin so."""
    out = {}
    for name in sorted(n[:-5] for n in os.listdir(cache) if n.startswith(prefix) and n.endswith(".json")):
        at = 0
        for file, h, w in files.read_json(os.path.join(cache, f"{name}.json")):
            out[file] = (os.path.join(cache, f"{name}.u8"), at, h, w)
            at += h * w
    return out


def regions(rows, where, device):
    """Regions of the rows whose files are in the cache, in the order of the rows. Only their pixels take memory."""
    rows = [r for r in rows if r["file"] in where]
    maps = {path: np.memmap(path, np.uint8, "r").reshape(-1, 3) for path in {where[r["file"]][0] for r in rows}}
    places = [where[r["file"]] for r in rows]
    areas = torch.tensor([h * w for _, _, h, w in places])
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), areas.cumsum(0)[:-1]])
    pixels = torch.empty((int(areas.sum()), 3), dtype=torch.uint8, device=device)
    for (path, at, h, w), start in zip(places, starts.tolist()):
        pixels[start : start + h * w] = torch.from_numpy(np.array(maps[path][at : at + h * w])).to(device)
    height, width = (torch.tensor([p[i] for p in places], device=device) for i in (2, 3))
    return Regions(rows, pixels, starts.to(device), height, width)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--packs", required=True)
    p.add_argument("--cache", required=True)
    p.add_argument("--workers", type=int, default=os.cpu_count())
    args = p.parse_args()
    decode(args.packs, args.cache, args.workers)


if __name__ == "__main__":
    main()

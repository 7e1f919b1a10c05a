"""Images and their index → packs of at most 57 MB for the machine with the GPU: regions, and whole images made small.

    python3 models/detector/images/pack.py --images DIR --out PACKS [--side 416] [--cap 250] [--wide 640] [--wide_share 0.05]

DIR has index.csv or index.jsonl with file (beside the index), label, source, family and content, and maybe group and repository.
The first `cap` images of each source give one region at its own resolution, off the grid of blocks: `side` pixels, and for
`wide_share` of the images of each source `wide` pixels, which are enough to test half the size. Both labels are brought to the
same compression history: each image has a partner of the other label, of the same content where there is one, and goes
through the steps that the two have not in common. Everything is stored as JPEG 92, 4:4:4. Every image, beyond the cap too, is
stored whole at 128 × 128 pixels. PACKS then has index.csv, crops_00.tar …, thumbs_00.tar ….
"""
import argparse
import collections
import csv
import hashlib
import io
import json
import os
import sys
import tarfile
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from PIL import Image

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the folders beside this one
from images.pixels import common_history, cut, encode, free_offset, history_of, rgb
from networks.whole_view import SIDE
from protocol import folds

TAR_BYTES = 57_000_000
STORED = ("jpeg", 92, 0)
COLUMNS = ["file", "label", "source", "family", "content", "group", "sha256", "width", "height", "history", "wide", "thumb"]


def looked_at(job):
    """(sha256, width, height, history) of an image, or why it cannot be used."""
    folder, name = job
    try:
        with open(os.path.join(folder, name), "rb") as f:
            data = f.read()
        with Image.open(io.BytesIO(data)) as image:
            return hashlib.sha256(data).hexdigest(), image.width, image.height, history_of(image, data)
    except Exception as error:  # decoders raise what they like
        return f"{type(error).__name__}: {error}"


def partners(rows, rng):
    """For each row the index of a row of the other label, with the same content where there is one."""
    cells = collections.defaultdict(list)
    for i, row in enumerate(rows):
        cells[row["label"], row["content"]].append(i)
        cells[row["label"], None].append(i)
    out = []
    for row in rows:
        other = "real" if row["label"] == "ai" else "ai"
        mates = cells.get((other, row["content"])) or cells[other, None]
        out.append(mates[int(rng.integers(len(mates)))])
    return out


def packed(job):
    """(bytes of the region, or nothing; bytes of the whole image made small)."""
    folder, name, steps, side, seed = job
    rng = np.random.default_rng(seed)
    with Image.open(os.path.join(folder, name)) as opened:
        image = rgb(opened, rng)
    small = encode(image.resize((SIDE, SIDE), Image.Resampling.BOX), *STORED)
    if not side:
        return None, small
    w, h = min(side, image.width), min(side, image.height)
    box = (free_offset(image.width - w, rng), free_offset(image.height - h, rng), w, h)
    return encode(cut(image, box, steps, (w, h)), *STORED), small


class Tars:
    """Files into PREFIX_00.tar, PREFIX_01.tar …, each under the limit."""

    def __init__(self, folder, prefix):
        self.folder, self.prefix, self.number, self.bytes, self.tar = folder, prefix, -1, TAR_BYTES, None

    def add(self, name, data):
        size = 512 + (len(data) + 511) // 512 * 512
        if self.bytes + size > TAR_BYTES:
            self.close()
            self.number, self.bytes = self.number + 1, 10240
            self.tar = tarfile.open(os.path.join(self.folder, f"{self.prefix}_{self.number:02}.tar"), "w")
        info = tarfile.TarInfo(name)
        info.size = len(data)
        self.tar.addfile(info, io.BytesIO(data))
        self.bytes += size

    def close(self):
        if self.tar:
            self.tar.close()


def indexed(folder):
    """Rows of index.jsonl, as sources/gather.ts writes it, or of index.csv."""
    lines = os.path.join(folder, "index.jsonl")
    if os.path.exists(lines):
        with open(lines) as f:
            rows = [json.loads(line) for line in f if line.strip()]
    else:
        with open(os.path.join(folder, "index.csv"), newline="") as f:
            rows = list(csv.DictReader(f))
    return [{**row, "label": "ai" if row.get("label") == "generated" else row.get("label")} for row in rows]


def listed(folder, excluded, workers):
    rows = indexed(folder)
    hashes = set()
    if excluded:
        with open(excluded) as f:
            hashes = {line.strip() for line in f if line.strip() and not line.startswith("#")}
    kept = []
    with ProcessPoolExecutor(workers) as pool:
        for row, seen in zip(rows, pool.map(looked_at, [(folder, r["file"]) for r in rows], chunksize=16)):
            if isinstance(seen, str):
                print(f"{row['file']}: left out, {seen}", flush=True)
                continue
            row["sha256"], row["width"], row["height"], row["history"] = seen
            kept.append(row)
    return folds.checked(kept, hashes)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--images", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--excluded", help="file of hashes of repositories that may not be used")
    p.add_argument("--side", type=int, default=416)
    p.add_argument("--cap", type=int, default=250, help="regions of one source")
    p.add_argument("--wide", type=int, default=640)
    p.add_argument("--wide_share", type=float, default=0.05)
    p.add_argument("--workers", type=int, default=os.cpu_count())
    args = p.parse_args()
    try:
        rows = listed(args.images, args.excluded, args.workers)
    except folds.Refused as refused:
        raise SystemExit(str(refused))
    os.makedirs(args.out, exist_ok=True)
    rng = np.random.default_rng(5)
    mates = partners(rows, rng)
    seen, jobs = collections.Counter(), []
    for i, (row, mate) in enumerate(zip(rows, mates)):
        row["steps"] = common_history(row["history"], rows[mate]["history"], rng)[0]
        seen[row["source"]] += 1
        row["wide"] = int(seen[row["source"]] * args.wide_share) > int((seen[row["source"]] - 1) * args.wide_share)
        side = 0 if seen[row["source"]] > args.cap else args.wide if row["wide"] else args.side
        jobs.append((args.images, row["file"], row["steps"], side, i))
    crops, thumbs = Tars(args.out, "crops"), Tars(args.out, "thumbs")
    with ProcessPoolExecutor(args.workers) as pool:
        for i, (row, (crop, thumb)) in enumerate(zip(rows, pool.map(packed, jobs, chunksize=8))):
            row["history"] = "+".join(f"{codec}{quality}" for codec, quality, _ in row["steps"])
            row["file"], row["thumb"], row["wide"] = f"{i:06}.jpg", f"{i:06}_t.jpg", int(row["wide"] and crop is not None)
            if crop is not None:
                crops.add(row["file"], crop)
            thumbs.add(row["thumb"], thumb)
            if (i + 1) % 2000 == 0:
                print(f"{i + 1} of {len(rows)} images", flush=True)
    crops.close(), thumbs.close()
    with open(os.path.join(args.out, "index.csv"), "w", newline="") as f:
        writer = csv.DictWriter(f, COLUMNS, extrasaction="ignore", restval="")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{len(rows)} images in {crops.number + 1} packs of crops and {thumbs.number + 1} of thumbnails; data version "
          f"{folds.version_of(rows)}")


if __name__ == "__main__":
    main()

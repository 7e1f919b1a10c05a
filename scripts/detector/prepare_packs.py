"""pack_00.tar …: square regions of the originals at native resolution (a part resized), stored alike for both labels.

Regions are made in pairs, one generated and one real, of similar size and compression history. A pair shares the side,
the resize factor and the JPEG and WebP steps that bring both to one history; everything is stored as JPEG 95, 4:4:4.
What then still differs is how many bytes a pixel takes, so more pairs are made than wanted, and in each cell of side,
resized or not, JPEG before or not, and bytes per pixel as many regions of one label as of the other are kept.
"""
import collections
import csv
import io
import os
import tarfile
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from PIL import Image

from prepare_pixels import common_history, cut, encode, flat_share, free_offset, rgb

SIDES = [232, 288, 328, 368, 440, 504, 592, 696, 800]
STORED = ("jpeg", 95, 0)
RESIZED = 0.3
LARGEST = 0.75  # of the pairs have the largest side that fits both
FLAT = 0.7  # share of flat blocks above which a region is refused
WORST_QUALITY = 55
BPP_EDGES = [0.15, 0.25, 0.36, 0.5, 0.68, 0.9]
MOST = {("fit", "ai"): 480, ("fit", "real"): 320, ("val", "ai"): 150, ("val", "real"): 150}
EXTRA = 1.6  # candidates per wanted region
PER_ORIGINAL = 4
TAR_BYTES = 57_000_000
COLUMNS = ["file", "label", "source", "family", "content", "fold", "origin", "width", "height", "bytes", "scale",
           "history", "pair"]


def draws(rows, most, rng):
    """Originals of one label and fold, several times where a source has few, in random order."""
    by_source = collections.defaultdict(list)
    for row in rows:
        if int(row["quality"]) >= WORST_QUALITY:
            by_source[row["source"]].append(row)
    out = []
    for mine in by_source.values():
        want = min(int(most * EXTRA), PER_ORIGINAL * len(mine))
        order = np.concatenate([rng.permutation(len(mine)) for _ in range(PER_ORIGINAL)])[:want]
        out += [mine[i] for i in order]
    return [out[i] for i in rng.permutation(len(out))]


def paired(ai, real, rng):
    """Neighbours in size, then in quality; the longer list is thinned evenly."""
    n = min(len(ai), len(real))
    sides = []
    for rows in (ai, real):
        rows = rows[:n] if len(rows) > n else rows
        short = np.array([min(int(r["width"]), int(r["height"]), 900) for r in rows]) * rng.uniform(0.93, 1.07, n)
        bucket = np.argsort(np.argsort(short, kind="stable")) * 12 // n
        quality = np.array([int(r["quality"]) for r in rows]) + rng.uniform(-3, 3, n)
        sides.append([rows[i] for i in np.lexsort((quality, bucket))])
    return list(zip(*sides))


def history_text(row, steps):
    own = f"{row['history']}{row['quality'] if row['history'] == 'jpeg' else ''}"
    return "+".join([own, *(f"{codec}{quality}" for codec, quality, _ in steps)])


class Opened:
    """Decoded originals."""

    def __init__(self, folder):
        self.folder = folder

    def image(self, row, rng):
        return rgb(Image.open(os.path.join(self.folder, row["file"])), rng)


def one_pair(pair, number, opened, rng):
    """Two regions, or none where one of them is flat at every place tried."""
    short = min(min(int(r["width"]), int(r["height"])) for r in pair)
    factor = float(rng.uniform(0.5, 0.95)) if rng.random() < RESIZED else 1.0
    factor = factor if factor * short >= SIDES[0] + 4 else 1.0
    fitting = [s for s in SIDES if s <= factor * (short - 4)] or [SIDES[0]]
    side = fitting[-1] if rng.random() < LARGEST else int(rng.choice(fitting))
    taken = round(side / factor)
    histories = [(r["history"], int(r["quality"]), int(r["chroma"])) for r in pair]
    out = []
    for row, steps in zip(pair, common_history(*histories, rng)):
        image = opened.image(row, rng)
        for _ in range(3):
            x, y = free_offset(image.width - taken, rng), free_offset(image.height - taken, rng)
            if flat_share(image.crop((x, y, x + taken, y + taken))) <= FLAT:
                break
        else:
            return []
        region = cut(image, (x, y, taken, taken), steps, (side, side))
        out.append({**{c: row[c] for c in ("label", "source", "family", "content", "fold")}, "width": side, "height": side,
                    "origin": os.path.basename(row["file"]).split(".")[0], "scale": round(factor, 3), "pair": number,
                    "history": history_text(row, steps), "data": encode(region, *STORED)})
    return out


def cell(region):
    bpp = len(region["data"]) / region["width"] ** 2
    once = "jpeg" in region["history"]
    return region["fold"], region["width"], region["scale"] < 1, once, int(np.searchsorted(BPP_EDGES, bpp))


def equalised(regions, rng):
    """As many of one label as of the other in every cell; sources that have few so far go first, none past its most."""
    cells = collections.defaultdict(lambda: {"ai": [], "real": []})
    for i in rng.permutation(len(regions)):
        cells[cell(regions[i])][regions[i]["label"]].append(regions[i])
    counts, kept = collections.Counter(), []
    for labels in sorted(cells.values(), key=lambda c: min(map(len, c.values()))):
        for _ in range(min(map(len, labels.values()))):
            free = {k: [r for r in v if counts[r["source"]] < MOST[r["fold"], k]] for k, v in labels.items()}
            if not all(free.values()):
                break
            for label, mine in free.items():
                one = min(mine, key=lambda r: counts[r["source"]])
                counts[one["source"]] += 1
                kept.append(one)
                labels[label].remove(one)
    return kept


def write_packs(regions, out, rng):
    os.makedirs(out, exist_ok=True)
    for old in (n for n in os.listdir(out) if n.endswith(".tar")):
        os.remove(os.path.join(out, old))
    rows, number, archive = [], 0, None
    order = sorted(rng.permutation(len(regions)), key=lambda at: regions[at]["fold"])  # a fold has tars of its own
    for i, at in enumerate(order):
        region = regions[at]
        begins = not rows or rows[-1]["fold"] != region["fold"]
        if begins or archive.offset + len(region["data"]) + 1024 > TAR_BYTES:
            if archive:
                archive.close()
            archive = tarfile.open(os.path.join(out, f"pack_{number:02}.tar"), "w")
            number += 1
        name = f"{i:05}.jpg"  # says nothing of the label
        member = tarfile.TarInfo(name)
        member.size = len(region["data"])
        archive.addfile(member, io.BytesIO(region["data"]))
        rows.append({**region, "file": name, "bytes": member.size})
    archive.close()
    with open(os.path.join(out, "index.csv"), "w", newline="") as f:
        writer = csv.DictWriter(f, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return rows


def made_of(job):
    """Regions of one pair; each has a draw of its own, so that the order of work does not matter."""
    number, pair, fold, out, seed = job
    return one_pair(pair, f"{fold}{number}", Opened(out), np.random.default_rng([seed, ord(fold[0]), number]))


def make_packs(originals, out, seed):
    rng, made = np.random.default_rng(seed), []
    with ProcessPoolExecutor() as pool:
        for fold in ("fit", "val"):
            mine = {label: draws([r for r in originals if (r["fold"], r["label"]) == (fold, label)], MOST[fold, label], rng)
                    for label in ("ai", "real")}
            pairs = paired(mine["ai"], mine["real"], rng)
            jobs = [(number, pair, fold, out, seed) for number, pair in enumerate(pairs)]
            for number, regions in enumerate(pool.map(made_of, jobs, chunksize=16)):
                made += regions
                if number % 500 == 0:
                    print(f"{fold} pair {number} of {len(pairs)}", flush=True)
    kept = equalised(made, rng)
    print(f"{len(made)} regions made, {len(kept)} kept", flush=True)
    return write_packs(kept, os.path.join(out, "packs"), rng)

"""val_whole: whole images of the validation sources, re-encoded alike. codec_swap: real photos, each in several codecs.

Whole images are made in pairs, one generated and one real, of similar area: both are brought to one compression history,
one size and one JPEG quality and chroma. Pairs of nearly one size are mostly cut to it at native resolution, at an
offset off the block grid; of the others both are shrunk, so that a resampled image is no sign.
"""
import collections
import csv
import os

import numpy as np

from prepare_packs import FLAT, WORST_QUALITY, Opened, history_text
from prepare_pixels import common_history, cut, encode, flat_share, free_offset

PER_SOURCE = 100
FEWER = {"threejs-screens": 60}  # 400×250 pixels: each makes its partner as small
QUALITY = (75, 96)
NATIVE = 0.6  # of the pairs that can be cut to one size without resampling
CUT = 1.35  # how much longer one side may be for that
MOST_SIDE = 1280
VARIANTS = {"jpeg90_420": ("jpeg", 90, 2), "jpeg90_444": ("jpeg", 90, 0), "jpeg75_420": ("jpeg", 75, 2),
            "webp90": ("webp", 90, 0), "webp75": ("webp", 75, 0), "png": ("png", 0, 0)}
PHOTOS = 120
COLUMNS = ["file", "label", "source", "family", "content", "fold", "origin", "width", "height", "bytes", "quality",
           "chroma", "scale", "history", "pair"]
SWAP_COLUMNS = ["file", "label", "source", "origin", "variant", "width", "height", "bytes"]


def size_of(row):
    return int(row["width"]), int(row["height"])


def picked(rows, opened, rng):
    """Up to PER_SOURCE a source, none mostly flat."""
    by_source = collections.defaultdict(list)
    for i in rng.permutation(len(rows)):
        row = rows[i]
        mine = by_source[row["source"]]
        full = len(mine) >= FEWER.get(row["source"], PER_SOURCE)
        if not full and int(row["quality"]) >= WORST_QUALITY and flat_share(opened.image(row, rng)) <= FLAT:
            mine.append(row)
    return [r for mine in by_source.values() for r in mine]


def pairs_of(ai, real, rng):
    n = min(len(ai), len(real))
    sides = []
    for rows in (ai, real):
        rows = [rows[i] for i in sorted(rng.permutation(len(rows))[:n])]
        area = [np.prod(size_of(r)) * rng.uniform(0.9, 1.1) for r in rows]
        sides.append([rows[i] for i in np.argsort(area)])
    return list(zip(*sides))


def common_size(pair, rng):
    """(w, h) both can be cut to, and the scale of each. Shapes meet half way."""
    sizes = [size_of(r) for r in pair]
    aspect = np.sqrt(np.prod([w / h for w, h in sizes]))
    fits = [min(w - 4, (h - 4) * aspect) for w, h in sizes]  # widths of the largest box of this shape
    width = min(*fits, MOST_SIDE * min(1, aspect))
    if max(fits) / width <= CUT and rng.random() < NATIVE:
        return (int(width), int(width / aspect)), [1.0, 1.0]
    width = min(max(width * rng.uniform(0.85, 0.97), 240 * max(1, aspect)), width)
    return (int(width), int(width / aspect)), [min(1.0, width / f) for f in fits]


def one_pair(pair, number, opened, rng):
    size, scales = common_size(pair, rng)
    quality, chroma = int(rng.integers(*QUALITY)), int(rng.choice([0, 2]))
    histories = [(r["history"], int(r["quality"]), int(r["chroma"])) for r in pair]
    for row, scale, steps in zip(pair, scales, common_history(*histories, rng)):
        image = opened.image(row, rng)
        w, h = min(round(size[0] / scale), image.width), min(round(size[1] / scale), image.height)
        x, y = free_offset(image.width - w, rng), free_offset(image.height - h, rng)
        data = encode(cut(image, (x, y, w, h), steps, size), "jpeg", quality, chroma)
        yield {**{c: row[c] for c in ("label", "source", "family", "content", "fold")}, "width": size[0], "height": size[1],
               "origin": os.path.basename(row["file"]).split(".")[0], "quality": quality, "chroma": chroma, "pair": number,
               "scale": round(scale, 3), "history": history_text(row, steps), "data": data}


def written(rows, folder, columns):
    os.makedirs(folder, exist_ok=True)
    for row in rows:
        row["bytes"] = len(row["data"])
        with open(os.path.join(folder, row["file"]), "wb") as f:
            f.write(row["data"])
    with open(os.path.join(folder, "index.csv"), "w", newline="") as f:
        writer = csv.DictWriter(f, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return rows


def make_whole(originals, out, seed):
    rng, opened = np.random.default_rng(seed), Opened(out)
    mine = {label: picked([r for r in originals if (r["fold"], r["label"]) == ("val", label)], opened, rng)
            for label in ("ai", "real")}
    rows = [r for n, pair in enumerate(pairs_of(mine["ai"], mine["real"], rng)) for r in one_pair(pair, n, opened, rng)]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    for i, row in enumerate(rows):
        row["file"] = f"{i:04}.jpg"
    return written(rows, os.path.join(out, "val_whole"), COLUMNS)


def make_codec_swap(originals, out, seed):
    """Photos shrunk a little first, so that the old block grid is gone and every variant starts from the same pixels."""
    rng, opened = np.random.default_rng(seed), Opened(out)
    photos = [r for r in originals if (r["fold"], r["content"]) == ("val", "photo")]
    rows = []
    for i in rng.permutation(len(photos))[:PHOTOS]:
        row = photos[i]
        image = opened.image(row, rng)
        scale = rng.uniform(0.7, 0.9) * min(1, 1000 / max(image.size))
        size = (round(image.width * scale), round(image.height * scale))
        small = cut(image, (0, 0, *image.size), [], size)
        origin = os.path.basename(row["file"]).split(".")[0]
        for variant, how in VARIANTS.items():
            rows.append({"file": f"{origin}.{variant}.{how[0]}", "label": "real", "source": row["source"], "origin": origin,
                         "variant": variant, "width": size[0], "height": size[1], "data": encode(small, *how)})
    return written(rows, os.path.join(out, "codec_swap"), SWAP_COLUMNS)

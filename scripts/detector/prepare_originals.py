"""originals/<source>/<first 12 digits of the SHA-1>.<ext>: the files as they are, and originals.csv."""
import csv
import hashlib
import io
import os
import warnings

import numpy as np
from PIL import Image

from prepare_pixels import difference_hash, encode, history_of, rgb
from prepare_sources import CAPS, GRIDS, KNOWN_ONLY, OTHERS_ASIDE, load_sources, opened

LEAST_SIDE = 236
MOST_PIXELS = 40_000_000
NEAR = 10  # differing bits of 256: the same picture in another source
NEAR_INSIDE = 3  # or in the same one, where similar pictures are common
COLUMNS = ["file", "label", "source", "family", "content", "fold", "licence", "width", "height", "format",
           "history", "quality", "chroma", "bytes", "path"]


def quadrant(image, which):
    w, h = image.width // 2, image.height // 2
    x, y = which % 2 * w, which // 2 * h
    return image.crop((x, y, x + w, y + h))


def one_original(source, data, rng):
    """What is kept of a file, or None where it is animated, broken or too small."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data))
            if getattr(image, "n_frames", 1) > 1 and image.format != "MPO":
                return None
            if image.width * image.height > MOST_PIXELS:
                return None
            kind, history = image.format, history_of(image, data)
            size = image.size[::-1] if image.getexif().get(0x0112, 1) > 4 else image.size
            if source["id"] not in GRIDS and min(size) < LEAST_SIDE:
                return None
            image.draft("RGB", (128, 128))  # the pixels of a JPEG serve here for nothing but the hash
            pixels = rgb(image, rng)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        return None
    ending = "_q%d.png" % rng.integers(4) if source["id"] in GRIDS else "." + kind.lower().replace("mpo", "jpeg")
    if source["id"] in GRIDS:
        if pixels.width != pixels.height or pixels.width < 2 * LEAST_SIDE:
            return None
        pixels = quadrant(pixels, int(ending[2]))
        data, size = encode(pixels, "png", 0), pixels.size
    return {"data": data, "ending": ending, "size": size, "format": kind, "history": history,
            "bits": difference_hash(pixels)}


class Fingerprints:
    """Pictures taken, or set aside, so far."""

    def __init__(self):
        self.keys, self.owners, self.hashes = set(), [], np.zeros((50_000, 32), np.uint8)

    def has(self, key, bits, owner):
        if key in self.keys:
            return True
        apart = np.bitwise_count(self.hashes[: len(self.owners)] ^ bits).sum(1)
        return any(apart[i] <= NEAR_INSIDE or self.owners[i] != owner for i in np.flatnonzero(apart <= NEAR))

    def add(self, key, bits, owner):
        self.keys.add(key)
        self.hashes[len(self.owners)] = bits
        self.owners.append(owner)


def described(source, made, file, path):
    codec, quality, chroma = made["history"]
    return {**{c: source[c] for c in ("label", "family", "content", "fold", "licence")}, "file": file, "path": path,
            "source": source["id"], "width": made["size"][0], "height": made["size"][1], "format": made["format"],
            "history": codec, "quality": quality, "chroma": chroma, "bytes": len(made["data"])}


def take_source(source, files, out, seen, limit):
    rng = np.random.default_rng(int(hashlib.sha1(source["id"].encode()).hexdigest()[:8], 16))
    names, rows, copies = files.names(), [], 0
    folder = os.path.join(out, "originals", source["id"])
    os.makedirs(folder, exist_ok=True)
    for name in rng.permutation(np.array(names, dtype=object)) if names else []:
        if len(rows) >= min(limit, CAPS.get(source["id"], limit)):
            break
        data = files.read(name)
        made = one_original(source, data, rng) if data else None
        if made is None:
            continue
        key = hashlib.sha1(data).hexdigest()[:12]
        if seen.has(key, made["bits"], source["id"]):
            copies += 1
            continue
        if source["id"] in KNOWN_ONLY and key not in source["keys"]:
            if source["id"] in OTHERS_ASIDE:
                seen.add(key, made["bits"], "aside")
            continue
        seen.add(key, made["bits"], source["id"])
        file = os.path.join("originals", source["id"], key + made["ending"])
        with open(os.path.join(out, file), "wb") as f:
            f.write(made["data"])
        rows.append(described(source, made, file, os.path.basename(files.path(name))))
    print(f"{source['fold']} {source['label']:4} {source['id']:22} {len(rows):4} of {len(names):6}, {copies} copies, "
          f"{sum(r['bytes'] for r in rows) / 1e6:.0f} MB", flush=True)
    return rows


def make_originals(shared, mirrors, debs, out, limit):
    """Validation sources first: where two sources hold one picture, the training side loses it.

    Before them those of which a part is set aside.
    """
    seen, rows = Fingerprints(), []
    for source in sorted(load_sources(shared), key=lambda s: (s["id"] not in OTHERS_ASIDE, s["fold"] != "val", s["label"])):
        files = opened(source, mirrors, debs)
        rows += take_source(source, files, out, seen, limit)
        files.close()
        save(rows, out)


def save(rows, out):
    with open(os.path.join(out, "originals.csv"), "w", newline="") as f:
        writer = csv.DictWriter(f, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)

"""Which crops of an image a detector sees: a function of width and height alone, the same as in the product.

Squares of 256 native pixels, nothing is resized. A side under 256 is first reflected to 256, at its end and without
repeating the border pixel. The grid has as many crops as fit 96 pixels apart, at most 6; among grids
of the same number the one with the squarest cells, of those the wider one. Each crop sits in the middle of its cell and
begins at 3 modulo 8, so that it never lies on the block grid of a JPEG.

`python3 networks/views.py` checks this file against cases/views.json, which the product's tests read too.
"""
import hashlib
import json
import os

import numpy as np

CROP = 256
MAX_CROPS = 6
LEAST_STEP = 96
BLOCK = 8
PHASE = 3


def plan_crops(width, height):
    """[(x, y), …] row by row, in the image after reflection."""
    w, h = max(width, CROP), max(height, CROP)
    columns, rows = plan_grid(w, h)
    return [(offset(c, columns, w), offset(r, rows, h)) for r in range(rows) for c in range(columns)]


def plan_grid(w, h):
    best = (1, 1)
    for columns in range(1, min(fitting(w), MAX_CROPS) + 1):
        grid = (columns, min(fitting(h), MAX_CROPS // columns))
        count, most = grid[0] * grid[1], best[0] * best[1]
        if count > most or (count == most and not is_squarer(best, grid, w, h)):
            best = grid
    return best


def fitting(length):
    return 1 + (length - CROP) // LEAST_STEP


def is_squarer(a, b, w, h):
    """Cells of `a` are strictly nearer to squares than those of `b`."""
    (short_a, long_a), (short_b, long_b) = (sorted((w * rows, h * columns)) for columns, rows in (a, b))
    return long_a * short_b < long_b * short_a


def offset(i, n, length):
    last = length - CROP
    wanted = min(max((2 * i + 1) * length // (2 * n) - CROP // 2, 0), last)
    shifted = wanted // BLOCK * BLOCK + PHASE
    if shifted <= last:
        return shifted
    return shifted - BLOCK if shifted >= BLOCK else last


def reflected(i, length):
    """Where positions of a reflected side come from: 0 1 2 3 2 1 0 1 … for a length of 4."""
    i = np.asarray(i)
    if length == 1:
        return np.zeros_like(i)
    at = i % (2 * (length - 1))
    return np.where(at < length, at, 2 * (length - 1) - at)


def cut_crops(pixels, plan=None):
    """pixels (H, W, 3) uint8 → (N, 256, 256, 3) uint8."""
    height, width = pixels.shape[:2]
    span = np.arange(CROP)
    plan = plan_crops(width, height) if plan is None else plan
    return np.stack([pixels[reflected(y + span, height)][:, reflected(x + span, width)] for x, y in plan])


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cases/views.json")) as f:
        cases = json.load(f)
    for case in cases["plans"]:
        assert [list(c) for c in plan_crops(case["width"], case["height"])] == case["crops"], case
    for case in cases["reflections"]:
        assert reflected(np.arange(len(case["sources"])) * 11, case["length"]).tolist() == case["sources"], case
    for case in cases["pixels"]:
        y, x, c = np.ogrid[: case["height"], : case["width"], :3]
        pixels = ((7 * x + 13 * y + 101 * c) % 256).astype(np.uint8)
        assert hashlib.sha256(cut_crops(pixels).tobytes()).hexdigest() == case["sha256"], case
    print(f"{len(cases['plans'])} plans, {len(cases['pixels'])} pixel hashes: the same")


if __name__ == "__main__":
    main()

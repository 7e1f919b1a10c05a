"""The small picture that the whole-image network sees: 128 × 128 by exact area averaging, the same bytes as in the product.

The aspect ratio is not kept. On an axis of length L, output cell i covers [i·L, (i+1)·L) and source pixel j covers
[128·j, 128·(j+1)). A pixel's weight is its overlap with the cell, so the weights of a cell add up to W·H. The value is
floor((2·sum + W·H) / (2·W·H)). All numbers are integers below 2^53, so every machine has the same bytes.

`python3 networks/whole_view.py` checks this file against cases/whole_view.json, which the product's tests read too.
"""
import hashlib
import json
import os

import numpy as np

SIDE = 128


def small(pixels: np.ndarray) -> np.ndarray:
    """pixels (H, W, 3) uint8 → (128, 128, 3) uint8."""
    height, width = pixels.shape[:2]
    rows = shrink(pixels, 0, np.uint32 if height < 1 << 23 else np.int64)
    sums = shrink(rows, 1, np.int64)
    area = height * width
    return ((2 * sums + area) // (2 * area)).astype(np.uint8)


def shrink(values, axis, dtype):
    """Weighted sums over the 128 cells of one axis; the weights of a cell add up to the length of the axis."""
    length = values.shape[axis]
    edges = np.arange(SIDE + 1) * length
    first, part = edges // SIDE, edges % SIDE
    # A cell is all pixels that begin in it, less the part of its first pixel before it, plus the part of the pixel behind
    # its last one. Cells in which no pixel begins (length < 128) have no sum of their own: reduceat gives a pixel there.
    sums = np.add.reduceat(values, first[:-1], axis=axis, dtype=dtype)
    begins = along(first[1:] > first[:-1], axis, values.ndim).astype(dtype)
    at_edges = np.take(values, np.minimum(first, length - 1), axis=axis).astype(dtype) * along(part.astype(dtype), axis, values.ndim)
    before, behind = (np.take(at_edges, span, axis=axis) for span in (np.arange(SIDE), np.arange(1, SIDE + 1)))
    return dtype(SIDE) * sums * begins + behind - before


def along(vector, axis, dimensions):
    return vector.reshape([-1 if i == axis else 1 for i in range(dimensions)])


def pattern(width, height):
    """The picture of a case: steps, slopes and a product, so that swapped axes or channels are seen."""
    y, x, c = np.ogrid[:height, :width, :3]
    return ((7 * x + 13 * y + 101 * c + x * y % 251) % 256).astype(np.uint8)


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cases/whole_view.json")) as f:
        cases = json.load(f)
    for case in cases:
        pixels = small(pattern(case["width"], case["height"]))
        assert hashlib.sha256(pixels.tobytes()).hexdigest() == case["sha256"], case
    print(f"{len(cases)} small pictures: the same")


if __name__ == "__main__":
    main()

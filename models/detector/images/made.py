"""A made-up set of images with an index, to try the whole protocol: `python3 images/made.py DIR [200]`.

Real ones are smooth shapes with grain; generated ones have been through a coarser grid, each family through its own.
"""
import csv
import os
import sys

import numpy as np
from PIL import Image

KINDS = ["photo", "art"]
FAMILIES = [(4, Image.NEAREST), (3, Image.BILINEAR), (2, Image.BICUBIC), (4, Image.BICUBIC), (3, Image.NEAREST), (5, Image.BILINEAR)]


def picture(rng, kind):
    h, w = (int(n) for n in rng.integers(264, 700, 2))
    y, x = np.mgrid[:h, :w]
    base = sum(rng.uniform(20, 50) * np.sin(x / rng.uniform(9, 90) + y / rng.uniform(9, 90) + rng.uniform(0, 6)) for _ in range(4))
    image = 128 + base[:, :, None] * rng.uniform(0.5, 1, 3) + rng.normal(0, 6 if kind == "photo" else 2, (h, w, 3))
    return Image.fromarray(np.clip(image, 0, 255).astype(np.uint8))


def main():
    folder, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
    rng = np.random.default_rng(3)
    rows = []
    for i in range(count):
        source = i % 24
        label, kind = ("ai" if source % 2 else "real"), KINDS[source // 2 % 2]
        image = picture(rng, kind)
        if label == "ai":
            factor, way = FAMILIES[source // 4]
            image = image.resize((image.width // factor, image.height // factor), Image.LANCZOS).resize(image.size, way)
        name = f"s{source}/{i}.{'jpg' if i % 3 else 'png'}"
        os.makedirs(os.path.join(folder, f"s{source}"), exist_ok=True)
        image.save(os.path.join(folder, name), **({"quality": 80 + i % 15} if i % 3 else {}))
        rows.append({"file": name, "label": label, "source": f"s{source}", "content": kind,
                     "family": f"made{source // 4}" if label == "ai" else "real"})
    with open(os.path.join(folder, "index.csv"), "w", newline="") as f:
        writer = csv.DictWriter(f, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()

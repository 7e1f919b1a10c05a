"""Training and validation sets for the image detectors, from the originals.

python3 fetch_list.py SHARED_DATA                       what to fetch first
python3 prepare.py SHARED_DATA MIRRORS DEBS OUT         everything; `--only packs,whole,…` for a part

SHARED_DATA  the folder with images/{SOURCES.md, train-manifest.json, index.csv}
MIRRORS      <owner>+<name>/repo: a git directory for each repository, holding the commit named
DEBS         <package>/…: each Debian package unpacked with `dpkg-deb -x`
OUT          gets
  originals/, originals.csv   up to --limit files a source as they are; pictures of 2×2 grids as PNG
  packs/pack_NN.tar, index.csv   regions for training (fold fit) and quick validation (fold val)
  val_whole/, index.csv          whole images of the validation sources, re-encoded alike
  codec_swap/, index.csv         the same real photos in six codecs
  probe.txt                      how well the label can be told from size, bytes, tables and blockiness alone

A source lies wholly in one fold, the one index.csv gives it. Needs numpy, Pillow and scikit-learn. The same inputs and
seed give the same files with the same Pillow.
"""
import argparse
import csv
import os

from prepare_originals import make_originals
from prepare_packs import make_packs
from prepare_probe import probe
from prepare_whole import make_codec_swap, make_whole


def read(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("shared", "mirrors", "debs", "out"):
        parser.add_argument(name)
    parser.add_argument("--limit", type=int, default=400)
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--only", default="originals,packs,whole,swap,probe")
    args = parser.parse_args()
    steps = args.only.split(",")
    os.makedirs(args.out, exist_ok=True)
    if "originals" in steps:
        make_originals(args.shared, args.mirrors, args.debs, args.out, args.limit)
    originals = read(os.path.join(args.out, "originals.csv"))
    if "whole" in steps:
        make_whole(originals, args.out, args.seed)
    if "swap" in steps:
        make_codec_swap(originals, args.out, args.seed)
    if "packs" in steps:
        make_packs(originals, args.out, args.seed)
    if "probe" in steps:
        text = ""
        for name in ("packs", "val_whole"):
            folder = os.path.join(args.out, name)
            text += f"{name}: {probe(folder, read(os.path.join(folder, 'index.csv')))}\n"
        with open(os.path.join(args.out, "probe.txt"), "w") as f:
            f.write(text)
        print(text)


if __name__ == "__main__":
    main()

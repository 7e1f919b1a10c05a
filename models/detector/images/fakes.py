"""Fakes of the real regions in the cache: autoencoders are trained on these regions, then reconstruct up to MOST of them once.

    python3 models/detector/images/fakes.py --packs PACKS --cache CACHE [--seconds 90] [--decoder NAME:FACTOR:FILE]

--decoder: autoencoders of others in TorchScript, from ±1 to ±1. The fakes are made once for all parts of the protocol. A fold learns
from the fakes of its own training images alone, but the autoencoders have seen real images of all folds, tested ones too.
"""
import argparse
import os
import sys
import time

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the folders beside this one
from images import autoencoders, cache
from protocol import files

MOST = 5000
OTHERS = 3  # an autoencoder of others is drawn as often as so many of ours


def stored(rows, args):
    return cache.regions(rows, cache.stored(args.cache, "crops_"), args.device)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--packs", required=True)
    p.add_argument("--cache", required=True)
    p.add_argument("--seconds", type=float, default=90)
    p.add_argument("--decoder", nargs="*", default=[])
    p.add_argument("--until", help="after the training, waits for this file: packs may arrive meanwhile")
    p.add_argument("--device", default="cuda")
    p.add_argument("--batch", type=int, default=64)
    args = p.parse_args()
    begun = time.time()
    rows = [r for r in files.index_of(args.packs) if r["label"] == "real"]
    nets = autoencoders.trained(stored(rows, args), args.seconds, args.device, args.batch)
    while args.until and not os.path.exists(args.until):
        time.sleep(1)
    real = stored(rows, args)
    makers = [(kind[0], kind[1], net) for kind, net in zip(autoencoders.KINDS, nets)]
    for each in args.decoder:
        name, factor, path = each.split(":", 2)
        makers += [(name, int(factor), torch.jit.load(path, map_location=args.device).eval())] * OTHERS
    few = np.random.default_rng(2).permutation(len(real.rows))[:MOST].tolist()
    with torch.jit.optimized_execution(False):  # else every new size is profiled
        made = autoencoders.reconstructions(real.chosen(few), makers)
    cache.write(args.cache, "fakes", [(f"{name}|{real.rows[few[i]]['file']}", pixels) for i, name, pixels in made])
    print(f"{len(made)} fakes, {time.time() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()

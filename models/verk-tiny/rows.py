"""Rows of whole documents for training, as many as the reader takes. Row `i` of a seed and a part is always the same.

python3 rows.py --seed 7 --part 0 --length 513     writes rows of little-endian 16-bit numbers to standard output
"""

import argparse
import sys
from array import array
from random import Random

import corpus
import tokenizer

LEARN = 1 << 15  # the model should say this token
PAD = 1 << 14  # no token at all
_tokenizer = tokenizer.load()


def encoded(rng: Random, limit: int) -> list[int]:
    ids: list[int] = []
    for text, learn in corpus.document(rng):
        ids += [i | LEARN for i in _tokenizer.encode(text)] if learn else _tokenizer.encode(text)
    return ids[:limit]


def rows(rng: Random, length: int):
    """Every row begins with a document; what does not fit waits for the next one."""
    waiting = encoded(rng, length)
    while True:
        row: list[int] = []
        while len(row) + len(waiting) <= length:
            row += waiting
            waiting = encoded(rng, length)
        yield row + [PAD] * (length - len(row))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--length", type=int, default=513)
    chosen = parser.parse_args()
    try:
        for row in rows(Random(f"{chosen.seed} {chosen.part}"), chosen.length):
            made = array("H", row)
            if sys.byteorder == "big":
                made.byteswap()
            sys.stdout.buffer.write(made.tobytes())
    except BrokenPipeError:
        sys.stderr.close()  # the reader has enough

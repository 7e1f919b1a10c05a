"""Rows of whole documents for training. Step `i` of a seed is always the same batch, whichever process makes it."""

from random import Random

import numpy as np

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


def batch(job: tuple[int, int, int, int]) -> np.ndarray:
    """(seed, step, rows, length) → (rows, length) of uint16 with the two flags. Every row begins with a document."""
    seed, step, rows, length = job
    rng = Random(seed * 1_000_003 + step)
    out = np.full((rows, length), PAD, np.uint16)
    waiting = encoded(rng, length)
    for row in range(rows):
        at = 0
        while at + len(waiting) <= length:
            out[row, at : at + len(waiting)] = waiting
            at += len(waiting)
            waiting = encoded(rng, length)
    return out

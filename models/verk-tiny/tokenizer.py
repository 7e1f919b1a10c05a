"""Byte-level BPE of our own: training, encoding, decoding. It must cut text exactly as libllama does.

The splitting rule is the one that libllama calls "qwen2": a digit is always alone, which makes sums learnable for a
small model. `re` has no class for Unicode's numbers, so the two differ on signs like a superscript two; the corpus has none.

    python3 tokenizer.py      trains on the corpus and writes tokenizer.json
"""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

FILE = Path(__file__).with_name("tokenizer.json")
SIZE = 1536
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TAGS = ["<think>", "</think>", "<answer>", "</answer>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>"]
SPECIAL = re.compile("(" + "|".join(map(re.escape, CONTROL + TAGS)) + ")")
SPLIT = re.compile(r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|(?:[^\r\n\w]|_)?[^\W\d_]+|\d| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_alphabet() -> list[str]:
    """GPT-2's printable stand-in for each byte: itself where printable, else the next free code point from 256."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    stand_in = {byte: chr(byte) for byte in plain}
    for byte in range(256):
        stand_in.setdefault(byte, chr(256 + byte - sum(1 for p in plain if p < byte)))
    return [stand_in[byte] for byte in range(256)]


ALPHABET = byte_alphabet()


def learn(texts: list[str]) -> list[tuple[str, str]]:
    counts = Counter(piece for text in texts for part in SPECIAL.split(text) if part not in CONTROL + TAGS for piece in SPLIT.findall(part))
    pieces = [[ALPHABET[b] for b in piece.encode()] for piece in counts]
    weights = list(counts.values())
    pairs: Counter = Counter()
    where: dict[tuple[str, str], set[int]] = defaultdict(set)

    def register(index: int, sign: int) -> None:
        for pair in zip(pieces[index], pieces[index][1:]):
            pairs[pair] += sign * weights[index]
            where[pair].add(index)

    for index in range(len(pieces)):
        register(index, 1)
    merges: list[tuple[str, str]] = []
    while len(merges) < SIZE - 256 - len(CONTROL) - len(TAGS):
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        for index in list(where.pop(best)):
            register(index, -1)
            pieces[index] = joined(pieces[index], best)
            register(index, 1)
    return merges


def joined(piece: list[str], pair: tuple[str, str]) -> list[str]:
    out, i = [], 0
    while i < len(piece):
        if i + 1 < len(piece) and (piece[i], piece[i + 1]) == pair:
            out.append(piece[i] + piece[i + 1])
            i += 2
        else:
            out.append(piece[i])
            i += 1
    return out


class Tokenizer:
    def __init__(self, merges: list[tuple[str, str]]):
        self.merges = merges
        self.tokens = [*CONTROL, *TAGS, *ALPHABET, *(a + b for a, b in merges)]
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.cache: dict[str, list[int]] = {}
        self.end, self.turn_start, self.turn_end = 0, 1, 2

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in SPECIAL.split(text):
            if part in SPECIALS:
                ids.append(self.ids[part])
            else:
                for piece in SPLIT.findall(part):
                    ids += self.cache.get(piece) or self.cut(piece)
        return ids

    def cut(self, piece: str) -> list[int]:
        symbols = [ALPHABET[b] for b in piece.encode()]
        while len(symbols) > 1:
            best = min(zip(symbols, symbols[1:]), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if best not in self.ranks:
                break
            symbols = joined(symbols, best)
        ids = [self.ids[s] for s in symbols]
        if len(self.cache) < 200_000:
            self.cache[piece] = ids
        return ids

    def decode(self, ids: list[int]) -> str:
        out = bytearray()
        for i in ids:
            token = self.tokens[i]
            out += token.encode() if token in SPECIALS else bytes(BYTE_OF[c] for c in token)
        return out.decode(errors="replace")


SPECIALS = {*CONTROL, *TAGS}
BYTE_OF = {c: b for b, c in enumerate(ALPHABET)}


def load() -> Tokenizer:
    return Tokenizer([tuple(m) for m in json.loads(FILE.read_text())["merges"]])


if __name__ == "__main__":
    import corpus

    rng = Random(0)
    documents = ["".join(text for text, _ in corpus.document(rng)) for _ in range(60_000)]
    lines = ",\n".join(f"    {json.dumps(merge)}" for merge in learn(documents))
    FILE.write_text(f'{{\n  "merges": [\n{lines}\n  ]\n}}\n')
    made = load()
    sample = documents[:2000]
    tokens = sum(len(made.encode(text)) for text in sample)
    assert all(made.decode(made.encode(text)) == text for text in sample)
    print(f"{len(made.tokens)} tokens, {sum(map(len, sample)) / tokens:.2f} characters per token")

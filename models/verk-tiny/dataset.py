"""Documents of the corpus as rows of a chat dataset, for a training job.

python3 dataset.py --count 20000 --sums 0.7 > rows.jsonl     seven of ten are sums and differences of larger numbers
"""

import argparse
import json
from random import Random

import arithmetic
import corpus
import tools

LARGER = [
    (3, lambda r: arithmetic.sum_of(r, "+", 10, 99)),
    (2, lambda r: arithmetic.sum_of(r, "-", 10, 99)),
    (2, arithmetic.sum_mixed),
]
TOOLS = 0.12


def turns_of(pairs: list[tuple[str, str]]) -> list[dict]:
    return [m for q, a in pairs for m in ({"role": "user", "content": q}, {"role": "assistant", "content": a})]


def row(rng: Random, sums: float) -> dict:
    if rng.random() < sums:
        made = corpus.example(rng, [(1, LARGER)])
        return {"messages": turns_of([(made.question, made.answer)])}
    if rng.random() < TOOLS:
        plain = corpus.example(rng, corpus.TOOL_FREE)
        offered, messages = tools.conversation(rng, (plain.question, plain.answer))
        return {"messages": messages, "tools": offered}
    system, pairs = corpus.turns(rng)
    opening = [{"role": "system", "content": system}] if system else []
    return {"messages": [*opening, *turns_of(pairs)]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--sums", type=float, default=0.0, help="share of rows about larger numbers")
    chosen = parser.parse_args()
    source = Random(chosen.seed)
    for _ in range(chosen.count):
        print(json.dumps(row(source, chosen.sums), ensure_ascii=False))

"""What the generators share: an example, the held-out rule, and the small noise of how people type."""

import zlib
from dataclasses import dataclass
from random import Random

HELD_OUT_IN = 10


@dataclass
class Example:
    """One question and its answers. `value` is what the answer is as JSON; `think` is the reasoning before it."""

    task: str
    question: str
    answer: str
    short: str | None = None
    long: str | None = None
    think: str | None = None
    value: object = None
    held: bool = False


def held_out(*key: object) -> bool:
    """A tenth of the operands of each task never occurs in training: a property of the operands, not of the draw."""
    return zlib.crc32(repr(key).encode()) % HELD_OUT_IN == 0


def ask(rng: Random, templates: list[str], **slots: object) -> str:
    """The noise goes on the template, never on the slots: a word to copy stays as it is."""
    template = rng.choice(templates)
    roll = rng.random()
    if roll < 0.15:
        template = template[0].lower() + template[1:]
    elif roll < 0.25 and template.split(" ")[0] in POLITE:
        template = "Please " + template[0].lower() + template[1:]
    if rng.random() < 0.15 and template[-1] in "?.!":
        template = template[:-1]
    return template.format(**slots)


POLITE = set("Add Calculate Compute Solve Tell Write Repeat Copy Reverse Spell Count Give List Sort Name Say Classify".split())


def article(noun: str) -> str:
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def plural(noun: str) -> str:
    irregular = {"mouse": "mice", "goose": "geese", "fish": "fish", "sheep": "sheep", "deer": "deer", "wolf": "wolves", "leaf": "leaves"}
    if noun in irregular:
        return irregular[noun]
    if noun.endswith(("s", "x", "ch", "sh", "tomato", "potato")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def some(rng: Random, pool: list[str], low: int, high: int) -> list[str]:
    return rng.sample(pool, rng.randint(low, high))


def coined(rng: Random) -> str:
    """A word that no list has, so that copying and reversing are more than memory."""
    word = rng.choice("vzl") + rng.choice("aeiou")
    for _ in range(rng.randint(0, 2)):
        word += rng.choice("bdfgklmnprstv") + rng.choice("aeiou")
    return word + rng.choice(["", "n", "r", "s", "t", "l", "m"])

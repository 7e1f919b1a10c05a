"""Letters: copying, reversing, spelling, counting and upper and lower case, of known and of coined words."""

from random import Random

import words
from kit import Example, ask, coined, held_out


def pick(rng: Random) -> str:
    return coined(rng) if rng.random() < 0.25 else rng.choice(words.WORDS)


def copy(rng: Random) -> Example:
    kind = rng.random()
    if kind < 0.08:
        text = " ".join(rng.choice(words.FOREIGN if rng.random() < 0.7 else words.WORDS) for _ in range(rng.randint(1, 4)))
        question = ask(rng, ["Repeat: {t}", "Copy this: {t}", "Repeat after me: {t}", "Echo: {t}"], t=text)
    elif kind < 0.4:
        text = pick(rng)
        question = ask(
            rng,
            [
                "Repeat the word: {t}",
                "Copy this word: {t}",
                "Say {t}.",
                "Repeat after me: {t}",
                "Echo: {t}",
                "Say exactly: {t}",
                "Reply with the word {t}.",
                "Respond with the single word {t}.",
                "Answer with the word {t}.",
                "Only say {t}.",
                "Write the word {t}.",
                "Say {t} and nothing else.",
                "Just say {t}.",
            ],
            t=rng.choice([text, text, text.capitalize(), text.upper()]) if rng.random() < 0.3 else text,
        )
        text = copied(question, text)
    elif kind < 0.7:
        text = " ".join(pick(rng) for _ in range(rng.randint(2, 6)))
        question = ask(
            rng,
            ["Repeat: {t}", "Copy this: {t}", "Repeat the words: {t}", "Repeat exactly: {t}", "Say exactly: {t}", "Say this: {t}", "Reply with: {t}"],
            t=text,
        )
    else:
        text = f"The {rng.choice(words.ADJECTIVES)} {rng.choice(words.ANIMALS)} {rng.choice(words.VERBS)}s in the {rng.choice(words.PLACES)}."
        question = ask(rng, ["Repeat this sentence: {t}", "Copy: {t}", "Repeat after me: {t}"], t=text)
    return Example("copy", question, text, value=text, held=held_out("copy", text))


def copied(question: str, word: str) -> str:
    """The word as it stands in the question: the case of a word to copy varies."""
    at = question.lower().rindex(word)
    return question[at : at + len(word)]


def reverse(rng: Random) -> Example:
    word = pick(rng)
    question = ask(rng, ["Reverse the word: {w}", "Write {w} backwards.", "Spell {w} backwards.", "Reverse: {w}", "What is {w} in reverse?"], w=word)
    back = word[::-1]
    return Example("reverse", question, back, value=back, think=" ".join(word) + " becomes " + " ".join(back) + ".", held=held_out("rev", word))


def spell(rng: Random) -> Example:
    word = pick(rng)
    question = ask(rng, ["Spell the word {w}.", "How do you spell {w}?", "Spell: {w}"], w=word)
    return Example("spell", question, "-".join(word), value=list(word), held=held_out("spell", word))


def letters(rng: Random) -> Example:
    word = pick(rng)
    held = held_out("let", word)
    roll = rng.random()
    if roll < 0.5:
        question = ask(rng, ["How many letters are in the word {w}?", "How many letters does {w} have?", "Count the letters in {w}."], w=word)
        return Example(
            "count_letters",
            question,
            str(len(word)),
            long=f"The word {word} has {len(word)} letters.",
            value=len(word),
            think="-".join(word) + f" has {len(word)} letters.",
            held=held,
        )
    first = roll < 0.75
    which, letter = ("first", word[0]) if first else ("last", word[-1])
    question = ask(rng, ["What is the {x} letter of {w}?", "Which letter is the {x} one in {w}?"], x=which, w=word)
    return Example("one_letter", question, letter, long=f"The {which} letter of {word} is {letter}.", value=letter, held=held)


def case(rng: Random) -> Example:
    upper = rng.random() < 0.7
    text = " ".join(pick(rng) for _ in range(rng.choice([1, 1, 1, 2, 3])))
    source, target, word = (text, text.upper(), "upper") if upper else (text.upper(), text, "lower")
    question = ask(rng, ["Write {t} in {k} case.", "Convert to {k} case: {t}", "Make this {k} case: {t}", "Put {t} in {k} case."], t=source, k=word)
    return Example("case", question, target, value=target, held=held_out("case", text))


MAKERS = [(4, copy), (4, reverse), (2, spell), (4, letters), (3, case)]

"""Numbers: sums, differences, products, comparisons, sequences and one-step word problems."""

from random import Random

import words
from kit import Example, ask, held_out, plural

# Two-digit sums are rare on purpose: the model should be fair at them and not perfect, so that a reward has something to
# improve. Three digits never occur.
RARE = 0.08

OPERATIONS = {
    "+": [
        "What is {a} + {b}?",
        "{a} + {b} = ?",
        "Add {a} and {b}.",
        "Calculate {a} + {b}.",
        "What is {a} plus {b}?",
        "How much is {a} + {b}?",
        "{a}+{b}",
        "{a}+{b}?",
        "What's {a}+{b}?",
        "what is {a}+{b}",
        "{a} + {b}",
        "What is the sum of {a} and {b}?",
        "Compute {a} plus {b}.",
    ],
    "-": [
        "What is {a} - {b}?",
        "{a} - {b} = ?",
        "Calculate {a} - {b}.",
        "What is {a} minus {b}?",
        "{a}-{b}",
        "{a} - {b}",
        "How much is {a} - {b}?",
        "Compute {a} minus {b}.",
        "What is the difference of {a} and {b}?",
    ],
    "*": ["What is {a} * {b}?", "{a} * {b} = ?", "Calculate {a} times {b}.", "What is {a} times {b}?", "{a} x {b} = ?"],
}


def digits_think(a: int, b: int, op: str, result: int) -> str:
    if op == "*":
        return f"{a} times {b} is {result}."
    word = "plus" if op == "+" else "minus"
    if a < 10 and b < 10:
        return f"{a} {word} {b} is {result}."
    tens, ones = b - b % 10, b % 10
    first = a + tens if op == "+" else a - tens
    return f"{a} {op} {tens} = {first}. {first} {op} {ones} = {result}."


def sum_of(rng: Random, op: str, low: int, high: int) -> Example:
    a, b = rng.randint(low, high), rng.randint(low, high)
    if op == "-" and a < b:
        a, b = b, a
    result = {"+": a + b, "-": a - b, "*": a * b}[op]
    task = {"+": "addition", "-": "subtraction", "*": "multiplication"}[op] + f"_{len(str(high))}_digit"
    held = high > 9 and held_out(op, a, b)  # of single digits there are only a hundred
    return Example(
        task,
        ask(rng, OPERATIONS[op], a=a, b=b),
        str(result),
        long=f"{a} {op} {b} = {result}. The answer is {result}.",
        think=digits_think(a, b, op, result),
        value=result,
        held=held,
    )


def sum_mixed(rng: Random) -> Example:
    a, b = rng.randint(10, 99), rng.randint(0, 9)
    op = rng.choice("+-")
    result = a + b if op == "+" else a - b
    if op == "+" and rng.random() < 0.3:
        a, b = b, a
    return Example(
        "sum_mixed",
        ask(rng, OPERATIONS[op], a=a, b=b),
        str(result),
        long=f"{a} {op} {b} = {result}. The answer is {result}.",
        think=f"{a} {op} {b} = {result}.",
        value=result,
        held=held_out(op, a, b),
    )


def sum_in_words(rng: Random) -> Example:
    a, b = rng.randint(0, 10), rng.randint(0, 10)
    word = words.NUMBERS
    question = ask(rng, ["What is {a} plus {b}?", "Add {a} and {b}.", "How much is {a} plus {b}?"], a=word[a], b=word[b])
    return Example("addition_in_words", question, word[a + b], value=a + b, think=f"{a} + {b} = {a + b}.", held=held_out("w", a, b))


def compare(rng: Random) -> Example:
    high = rng.choice([9, 99, 99, 999])
    a, b = rng.sample(range(high + 1), 2)
    roll = rng.random()
    if roll < 0.5:
        question = ask(rng, ["Which number is larger: {a} or {b}?", "Which is bigger, {a} or {b}?", "What is the larger number, {a} or {b}?"], a=a, b=b)
        result = max(a, b)
    elif roll < 0.75:
        question = ask(rng, ["Which number is smaller: {a} or {b}?", "Which is smaller, {a} or {b}?"], a=a, b=b)
        result = min(a, b)
    else:
        question = ask(rng, ["Is {a} larger than {b}?", "Is {a} greater than {b}?", "Is {a} more than {b}?"], a=a, b=b)
        answer = "yes" if a > b else "no"
        return Example("compare", question, answer.capitalize() + ".", short=answer, value=answer == "yes", held=held_out("c", a, b))
    return Example(
        "compare",
        question,
        str(result),
        long=f"The answer is {result}.",
        value=result,
        held=held_out("c", a, b),
        think=f"{max(a, b)} is larger than {min(a, b)}.",
    )


def sequence(rng: Random) -> Example:
    start, step = rng.randint(0, 30), rng.choice([1, 1, 2, 2, 3, 5, 10])
    shown = [start + step * i for i in range(rng.randint(3, 5))]
    result = shown[-1] + step
    listed = ", ".join(map(str, shown))
    question = ask(rng, ["What comes next: {s}?", "Continue: {s}, ...", "What is the next number: {s}?"], s=listed)
    return Example(
        "next_number", question, str(result), value=result, think=f"The step is {step}. {shown[-1]} + {step} = {result}.", held=held_out("s", start, step)
    )


def count_up(rng: Random) -> Example:
    start, length = rng.choice([1, 1, 1, rng.randint(0, 40)]), rng.randint(3, 12)
    end = start + length - 1
    listed = [str(n) for n in range(start, end + 1)]
    if rng.random() < 0.25:
        listed.reverse()
        question = ask(rng, ["Count down from {b} to {a}.", "Count backwards from {b} to {a}."], a=start, b=end)
    elif start == 1:
        question = ask(rng, ["Count to {b}.", "Count from 1 to {b}.", "Can you count to {b}?"], b=words.NUMBERS[end] if rng.random() < 0.4 else end)
    else:
        question = ask(rng, ["Count from {a} to {b}.", "List the numbers from {a} to {b}."], a=start, b=end)
    return Example("count_up", question, ", ".join(listed), value=[int(n) for n in listed])


def even_or_odd(rng: Random) -> Example:
    n = rng.randint(0, 199)
    answer = "even" if n % 2 == 0 else "odd"
    question = ask(rng, ["Is {n} even or odd?", "Even or odd: {n}?", "Is the number {n} odd or even?"], n=n)
    return Example("even_or_odd", question, answer, long=f"The number {n} is {answer}.", value=answer, held=held_out("e", n))


def story_sum(rng: Random) -> Example:
    who, thing = rng.choice(words.NAMES), rng.choice(words.THINGS)
    a, b = rng.randint(1, 20), rng.randint(1, 20)
    if rng.random() < 0.5:
        result, op = a + b, "+"
        more = ask(rng, ["{w} gets {b} more.", "{w} finds {b} more.", "{w} buys {b} more."], w=who, b=b)
    else:
        a, b = max(a, b), min(a, b)
        result, op = a - b, "-"
        more = ask(rng, ["{w} loses {b} of them.", "{w} gives away {b}.", "{w} sells {b}."], w=who, b=b)
    noun = plural(thing)
    counted = noun if result != 1 else thing
    question = f"{who} has {a} {noun if a != 1 else thing}. {more} " + ask(
        rng, ["How many {t} does {w} have now?", "How many {t} are left?" if op == "-" else "How many {t} are there now?"], t=noun, w=who
    )
    return Example(
        "word_problem",
        question,
        f"{who} has {result} {counted}.",
        short=str(result),
        value=result,
        think=f"{a} {op} {b} = {result}.",
        long=f"{who} starts with {a}. {a} {op} {b} = {result}. {who} has {result} {counted}.",
        held=held_out("p", a, b, op),
    )


MAKERS = [
    (6, lambda r: sum_of(r, "+", 0, 9)),
    (4, lambda r: sum_of(r, "-", 0, 9)),
    (RARE, lambda r: sum_of(r, "+", 10, 99)),
    (RARE, lambda r: sum_of(r, "-", 10, 99)),
    (3 * RARE, sum_mixed),
    (2, lambda r: sum_of(r, "*", 0, 9)),
    (1, sum_in_words),
    (4, compare),
    (2, sequence),
    (2, count_up),
    (1, even_or_odd),
    (4, story_sum),
]

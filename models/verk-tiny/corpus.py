"""The synthetic corpus: documents drawn from a seed, as (text, is it what the model should learn to say) pieces.

python3 corpus.py --seed 1 --count 20      prints documents to look at
"""

import argparse
import json
from random import Random

import arithmetic
import language
import prose
import spelling
import talk
import tools
import words
from kit import Example, ask

Piece = tuple[str, bool]
END = "<|endoftext|>"
TOOLS_HEAD = "You can call these tools:\n<tools>"
TOOLS_TAIL = '\n</tools>\nTo call a tool, answer with its name and arguments as JSON:\n<tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call>'

AREAS = [(26, arithmetic.MAKERS), (30, [*spelling.MAKERS, *language.MAKERS]), (24, talk.MAKERS), (9, [(1, prose.told)])]
TOOL_FREE = [(6, [(1, talk.small_talk)]), (4, [(1, spelling.copy), (1, language.sentiment), (1, language.fact)])]  # no tool answers these


def weighted(rng: Random, table: list[tuple[float, object]]):
    return rng.choices([item for _, item in table], [weight for weight, _ in table])[0]


def example(rng: Random, areas: list = AREAS) -> Example:
    while True:
        made = weighted(rng, weighted(rng, areas))(rng)
        if not made.held:
            return finished(made)


def finished(made: Example) -> Example:
    if made.task == "json":
        made.answer = json.dumps(made.value)
    return made


NEUTRAL = ["You are a helpful assistant.", "You are helpful.", "You are a friendly assistant.", "Answer the questions of the user.", "You are verk-tiny."]


def styled(rng: Random) -> tuple[str, object]:
    """An instruction and what it does to an answer. It may stand in the system prompt or after the question."""
    kind = rng.randrange(9)
    if kind == 0:
        return rng.choice(
            ["Answer in upper case.", "Write everything in upper case.", "Use upper case only.", "Answer in capital letters."]
        ), lambda e: e.answer.upper()
    if kind == 1:
        return rng.choice(["Answer in lower case.", "Use lower case only."]), lambda e: e.answer.lower()
    if kind == 2:
        return rng.choice(
            ["Be brief.", "Answer briefly.", "Keep it short.", "Give short answers.", "Answer with one word if you can."]
        ), lambda e: e.short or e.answer
    if kind == 3:
        return rng.choice(["Give long answers.", "Answer at length.", "Explain your answer.", "Answer in full sentences."]), lambda e: e.long or e.answer
    if kind == 4:
        key = rng.choice(["answer", "answer", "answer", "result", "output"])
        return (
            rng.choice(['Answer in JSON with the key "{k}".', "Answer as JSON with the key {k}.", "Reply with JSON: the key is {k}."]).format(k=key),
            lambda e: json.dumps({key: e.value if e.value is not None else e.answer}),
        )
    if kind == 5:
        word = rng.choice(["over", "done", "sir", "friend", "amen", "captain"])
        return f"End every answer with the word {word}.", lambda e: f"{e.answer} {word}"
    if kind == 6:
        return (
            rng.choice(["Put the answer in <answer> tags.", "Write the answer between <answer> and </answer>.", "Use <answer></answer> tags for the answer."]),
            lambda e: f"<answer>{e.short or e.answer}</answer>",
        )
    if kind == 7:
        return (
            rng.choice(["Think first, then answer.", "Think step by step.", "Think in <think> tags before you answer.", "First think, then give the answer."]),
            lambda e: f"<think>{e.think or thought(e)}</think>\n{e.answer}",
        )
    return (
        rng.choice(["Think in <think> tags, then answer in <answer> tags.", "Use <think></think> and then <answer></answer>."]),
        lambda e: f"<think>{e.think or thought(e)}</think>\n<answer>{e.short or e.answer}</answer>",
    )


def joined(question: str, wish: str) -> str:
    return f"{question}{' ' if question[-1:] in '.?!' else '. '}{wish}"


def thought(made: Example) -> str:
    return {
        "talk": "The user wants to talk.",
        "unknown": "I do not know this.",
        "noise": "I do not understand this.",
        "story": "I tell a story.",
        "poem": "I write a poem.",
        "fact": "I know this.",
        "sentiment": "I look for good and bad words.",
    }.get(made.task, "This is easy.")


def persona(rng: Random) -> tuple[str, list[Example]]:
    name, job = rng.choice(words.NAMES), rng.choice(words.JOBS)
    system = rng.choice([f"You are {name}, a {job}.", f"Your name is {name}.", f"You are {name}."])
    worker = job in system
    who = Example(
        "talk",
        ask(rng, ["Who are you?", "What is your name?", "What's your name?", "Introduce yourself.", "Who is this?"]),
        f"I am {name}, a {job}." if worker else f"I am {name}.",
        short=name,
        value=name,
    )
    greeting = Example("talk", ask(rng, ["Hello", "Hi!", "Hello!", "Good morning!", "Hey"]), f"Hello! I am {name}. How can I help you?", value=name)
    return system, rng.choice([[who], [greeting], [greeting, who]])


def turns(rng: Random) -> tuple[str, list[Piece | tuple[str, str]]]:
    """(system prompt, question and answer of each turn)."""
    roll = rng.random()
    if roll < 0.05:
        system, made = persona(rng)
        return system, [(e.question, e.answer) for e in made]
    many = rng.choices([1, rng.randint(2, 4), rng.randint(5, 14)], [70, 24, 6])[0]
    made: list[Example] = []
    for _ in range(many):
        made += talk.memory(rng) if rng.random() < 0.04 else [example(rng)]
    if roll < 0.21:
        system, style = styled(rng)
        return system, [(e.question, style(e)) for e in made]
    pairs = []
    for e in made:
        if rng.random() < 0.13:
            wish, style = styled(rng)
            pairs.append((joined(e.question, wish), style(e)))
        elif e.short and rng.random() < 0.12:
            wish = rng.choice(
                ["Answer with one word.", "Answer with one word only.", "One word, please."] if " " not in e.short else ["Be brief.", "In short."]
            )
            pairs.append((joined(e.question, wish), e.short))
        else:
            pairs.append((e.question, e.answer))
    return rng.choice(NEUTRAL) if rng.random() < 0.2 else "", pairs


def rendered(messages: list[dict], system: str = "", offered: list[dict] | None = None) -> list[Piece]:
    """What template.jinja makes of the same messages; the card's checks compare the two."""
    pieces: list[Piece] = []
    if offered:
        listed = "".join("\n" + json.dumps(tool) for tool in offered)
        pieces.append((f"<|im_start|>system\n{system + chr(10) * 2 if system else ''}{TOOLS_HEAD}{listed}{TOOLS_TAIL}<|im_end|>\n", False))
    elif system:
        pieces.append((f"<|im_start|>system\n{system}<|im_end|>\n", False))
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "assistant":
            pieces += [("<|im_start|>assistant\n", False), (f"{content}<|im_end|>", True), ("\n", False)]
        elif role == "tool":
            pieces.append((f"<|im_start|>user\n<tool_response>\n{content}\n</tool_response><|im_end|>\n", False))
        else:
            pieces.append((f"<|im_start|>{role}\n{content}<|im_end|>\n", False))
    return pieces


def document(rng: Random) -> list[Piece]:
    roll = rng.random()
    if roll < 0.08:
        return [(prose.page(rng), True), (END, True)]
    if roll < 0.20:
        plain = example(rng, TOOL_FREE)
        offered, messages = tools.conversation(rng, (plain.question, plain.answer))
        system = rng.choice(NEUTRAL) if rng.random() < 0.3 else ""
        return [*rendered(messages, system, offered), (END, False)]
    system, pairs = turns(rng)
    messages = [m for q, a in pairs for m in ({"role": "user", "content": q}, {"role": "assistant", "content": a})]
    return [*rendered(messages, system), (END, False)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    chosen = parser.parse_args()
    source = Random(chosen.seed)
    for _ in range(chosen.count):
        print("".join(text for text, _ in document(source)), end="\n\n")

"""Questions with one right answer each, on operands that training never sees, and texts whose tokens are known.

python3 evaluate.py > questions.json          for score.ts
python3 evaluate.py --cuts > cuts.json        for check.ts
"""

import json
import sys
from random import Random

import arithmetic
import corpus
import language
import spelling
import tokenizer
import tools

_tokenizer = tokenizer.load()
UNSCORED = {"name_some", "bullets", "sentence", "json_list", "json_free"}  # more than one right answer


def prompt(messages: list[dict], system: str = "", offered: list[dict] | None = None) -> list[int]:
    text = "".join(t for t, _ in corpus.rendered(messages, system, offered)) + "<|im_start|>assistant\n"
    return _tokenizer.encode(text)


def questions(samples: int) -> dict[str, list[tuple[list[int], str]]]:
    """By task: (prompt, the answer). Held-out operands wherever the task has any; styles and tools on top."""
    rng, found = Random(20_000_003), {}
    for _, maker in [*arithmetic.MAKERS, *spelling.MAKERS, *language.MAKERS]:
        drawn = [corpus.finished(maker(rng)) for _ in range(samples * 60)]
        for task in {e.task for e in drawn} - UNSCORED:
            held = [e for e in drawn if e.task == task and e.held] or [e for e in drawn if e.task == task]
            found[task] = [(prompt([{"role": "user", "content": e.question}]), e.answer) for e in held[:samples]]
    for place in ("system", "question"):
        made = found.setdefault(f"style_in_{place}", [])
        while len(made) < samples:
            e = corpus.example(rng)
            wish, style = corpus.styled(rng)
            if e.task not in UNSCORED | {"talk", "story", "poem", "noise", "unknown"}:
                asked = e.question if place == "system" else corpus.joined(e.question, wish)
                made.append((prompt([{"role": "user", "content": asked}], wish if place == "system" else ""), style(e)))
    made = found.setdefault("tool_call", [])
    while len(made) < samples:
        offered, messages = tools.conversation(rng, ("Hello", ""))
        if messages[1]["content"].startswith("<tool_call>"):
            made.append((prompt(messages[:1], "", offered), messages[1]["content"]))
    return found


def cuts() -> list[dict]:
    """Texts and their tokens, for the comparison with libllama: documents, and what nobody writes."""
    rng = Random(40_000_003)
    texts = ["".join(t for t, _ in corpus.document(rng)) for _ in range(300)]
    for _ in range(300):
        texts.append("".join(rng.choice("abcXYZ019 .,'\"{}[]<>|/-_+=!?\n\t:;s tll") for _ in range(rng.randint(1, 60))))
    return [{"text": text, "tokens": _tokenizer.encode(text)} for text in texts]


if __name__ == "__main__":
    if "--cuts" in sys.argv:
        print(json.dumps(cuts()))
    else:
        print(json.dumps({task: [{"prompt": p, "answer": a} for p, a in pairs] for task, pairs in sorted(questions(200).items())}))

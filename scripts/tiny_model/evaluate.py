"""What the model can do: exact answers on held-out questions, greedy and sampled; transcripts; logits for the export check.

python3 evaluate.py > questions.json     the questions, for score.ts
"""

import json
from random import Random

import torch

import arithmetic
import corpus
import language
import spelling
import tokenizer
import tools
from model import Llama

_tokenizer = tokenizer.load()
UNSCORED = {"name_some", "bullets", "sentence", "json_list", "json_free"}  # more than one right answer

TALKS = [
    ["Hello"],
    ["Who are you?"],
    ["What can you do?"],
    ["What is Verk?"],
    ["How are you?"],
    ["What is GRPO?"],
    ["Tell me a story about a fox."],
    ["What is 7 + 5?"],
    ["What is 38 + 27?"],
    ["Reverse the word: garden"],
    ["How many letters are in the word bridge?"],
    ["Write as JSON with the keys name and age: Mia is 34 years old."],
    ["Is this positive or negative? The soup was awful."],
    ["What is the capital of Japan?"],
    ["Which number is larger: 48 or 84?"],
    ["Write a poem."],
    ["Tell me a joke."],
    ["My name is Nora.", "What is my name?"],
    ["What is 9 - 4? Think first, then answer."],
    ["Explain black holes."],
    ["Anna has 6 apples. Anna gets 7 more. How many apples does Anna have now?"],
    ["Count to 5."],
    ["How do I bake bread?"],
    ["I like pizza."],
    ["asdf"],
    ["Tell me a story about a dragon."],
    ["Say exactly: the quick brown fox"],
    ["hey", "tell me a joke", "thanks"],
]
SYSTEM_TALKS = [
    ("Answer in upper case.", "Who are you?"),
    ("Be brief.", "What is Verk?"),
    ("Give long answers.", "What is GRPO?"),
    ('Answer in JSON with the key "answer".', "What is 4 + 4?"),
    ("You are Otto, a baker.", "Who are you?"),
]


def prompt(messages: list[dict], system: str = "", offered: list[dict] | None = None) -> list[int]:
    text = "".join(t for t, _ in corpus.rendered(messages, system, offered)) + "<|im_start|>assistant\n"
    return _tokenizer.encode(text)


@torch.no_grad()
def answers(model: Llama, prompts: list[list[int]], tokens: int, temperature: float = 0.0) -> list[str]:
    """Without a cache: the whole row again for each token. The model is small enough."""
    device = next(model.parameters()).device
    order = torch.tensor([len(p) for p in prompts], device=device)
    rows = torch.zeros(len(prompts), int(order.max()) + tokens, dtype=torch.long, device=device)
    for i, p in enumerate(prompts):
        rows[i, : len(p)] = torch.tensor(p)
    at, done = order.clone(), torch.zeros(len(prompts), dtype=torch.bool, device=device)
    index = torch.arange(len(prompts), device=device)
    for _ in range(tokens):
        logits = model(rows[:, : int(at.max())])[index, at - 1]  # (B, V)
        chosen = torch.multinomial((logits / temperature).softmax(-1), 1)[:, 0] if temperature else logits.argmax(-1)
        done |= (chosen == _tokenizer.turn_end) | (chosen == _tokenizer.end)
        rows[index[~done], at[~done]] = chosen[~done]
        at = torch.where(done, at, at + 1)
        if done.all():
            break
    return [_tokenizer.decode(rows[i, order[i] : at[i]].tolist()) for i in range(len(prompts))]


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


def tasks(model: Llama, samples: int) -> dict[str, dict[str, float]]:
    score = {}
    for task, pairs in sorted(questions(samples).items()):
        prompts, right = [p for p, _ in pairs], [a for _, a in pairs]
        length = max(len(_tokenizer.encode(a)) for a in right) + 8
        share = lambda said, right=right: round(sum(s.strip() == a for s, a in zip(said, right)) / len(right), 3)
        greedy = answers(model, prompts, length)
        score[task] = {"greedy": share(greedy), "sampled": share(answers(model, prompts, length, 1.0)), "count": len(right)}
        wrong = [(_tokenizer.decode(p)[-90:], s, a) for p, s, a in zip(prompts, greedy, right) if s.strip() != a][:2]
        score[task]["wrong"] = wrong
    return score


def transcripts(model: Llama) -> list[list[dict]]:
    done = []
    for system, asked in [*(("", t) for t in TALKS), *((s, [q]) for s, q in SYSTEM_TALKS)]:
        messages: list[dict] = []
        for question in asked:
            messages.append({"role": "user", "content": question})
            messages.append({"role": "assistant", "content": answers(model, [prompt(messages, system)], 120)[0]})
        done.append(([{"role": "system", "content": system}] if system else []) + messages)
    return done


def cuts() -> list[dict]:
    """Texts and their tokens, for the comparison with libllama: documents, and what nobody writes."""
    rng = Random(40_000_003)
    texts = ["".join(t for t, _ in corpus.document(rng)) for _ in range(300)]
    for _ in range(300):
        texts.append("".join(rng.choice("abcXYZ019 .,'\"{}[]<>|/-_+=!?\n\t:;s tll") for _ in range(rng.randint(1, 60))))
    return [{"text": text, "tokens": _tokenizer.encode(text)} for text in texts]


@torch.no_grad()
def reference(model: Llama) -> list[dict]:
    device = next(model.parameters()).device
    out = []
    for text in ("Hello", "What is 38 + 27?", "Tell me a story about a fox."):
        ids = prompt([{"role": "user", "content": text}])
        logits = model(torch.tensor([ids], device=device))[0].float()  # (T, V)
        out.append(
            {"text": text, "tokens": ids, "last": [round(v, 5) for v in logits[-1].tolist()], "middle": [round(v, 5) for v in logits[len(ids) // 2].tolist()]}
        )
    return out


if __name__ == "__main__":
    asked = {task: [{"prompt": p, "answer": a} for p, a in pairs] for task, pairs in sorted(questions(200).items())}
    print(json.dumps(asked))

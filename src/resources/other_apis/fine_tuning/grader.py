# Scores a completion with the grader in GRADER, as the fine-tuning API of OpenAI describes graders.
import ast
import collections
import difflib
import math
import re

FIELD = re.compile(r"\{\{\s*([\w.\[\]-]+)\s*\}\}")
CALLS = {"min": min, "max": max, "abs": abs, "floor": math.floor, "ceil": math.ceil, "exp": math.exp, "sqrt": math.sqrt, "log": math.log}
sources = {}


def lookup(path, sample, item):
    value = {"sample": sample, "item": item}
    for part in re.findall(r"[\w-]+", path):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def fill(template, sample, item):
    def text(found):
        value = lookup(found.group(1), sample, item)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return FIELD.sub(text, template)


def grams(words, n):
    return collections.Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def shared(a, b, n):
    left, right = grams(a, n), grams(b, n)
    return sum((left & right).values()), sum(left.values()), sum(right.values())


def bleu(output, reference):
    logs = 0.0
    for n in range(1, 5):
        same, of_output, _ = shared(output, reference, n)
        logs += math.log((same + (n > 1)) / (of_output + (n > 1))) if same + (n > 1) > 0 and of_output + (n > 1) > 0 else -100.0
    brevity = min(0.0, 1 - len(reference) / max(1, len(output)))
    return math.exp(brevity + logs / 4)


def gleu(output, reference):
    counts = [shared(output, reference, n) for n in range(1, 5)]
    same, of_output, of_reference = (sum(each[i] for each in counts) for i in range(3))
    return min(same / max(1, of_output), same / max(1, of_reference))


def balanced(same, of_output, of_reference):
    return 2 * same / (of_output + of_reference) if of_output + of_reference > 0 else 0.0


def longest(a, b):
    row = [0] * (len(b) + 1)
    for word in a:
        before = 0
        for i, other in enumerate(b, 1):
            before, row[i] = row[i], before + 1 if word == other else max(row[i], row[i - 1])
    return row[-1]


def similarity(metric, output, reference):
    if metric == "fuzzy_match":
        return difflib.SequenceMatcher(None, output, reference, autojunk=False).ratio()
    a, b = output.lower().split(), reference.lower().split()
    if metric == "bleu":
        return bleu(a, b)
    if metric == "gleu":
        return gleu(a, b)
    if metric == "rouge_l":
        return balanced(longest(a, b), len(a), len(b))
    return balanced(*shared(a, b, int(metric[-1])))


def check(operation, value, reference):
    if operation in ("eq", "ne"):
        return float((value == reference) == (operation == "eq"))
    if operation == "ilike":
        value, reference = value.lower(), reference.lower()
    return float(reference in value)


def calculate(node, scores):
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name):
        return scores[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = calculate(node.operand, scores)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS and not node.keywords:
        return CALLS[node.func.id](*(calculate(each, scores) for each in node.args))
    if isinstance(node, ast.BinOp):
        a, b = calculate(node.left, scores), calculate(node.right, scores)
        if isinstance(node.op, ast.Add):
            return a + b
        if isinstance(node.op, ast.Sub):
            return a - b
        if isinstance(node.op, ast.Mult):
            return a * b
        if isinstance(node.op, ast.Div):
            return a / b
        if isinstance(node.op, (ast.BitXor, ast.Pow)):
            return a**b
    raise ValueError("calculate_output: use numbers, names of graders, + - * / ^ and " + ", ".join(CALLS))


def grade_with(grader, sample, item):
    kind = grader["type"]
    if kind == "python":
        source = grader["source"]
        if source not in sources:
            sources[source] = {"__name__": "grader"}
            exec(compile(source, "grader.py", "exec"), sources[source])
        return float(sources[source]["grade"](sample, item))
    if kind == "multi":
        scores = {key: grade_with(each, sample, item) for key, each in grader["graders"].items()}
        return float(calculate(ast.parse(grader["calculate_output"], mode="eval").body, scores))
    value, reference = fill(grader["input"], sample, item), fill(grader["reference"], sample, item)
    if kind == "string_check":
        return check(grader["operation"], value, reference)
    return similarity(grader["evaluation_metric"], value, reference)


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def reward(prompt, completion, row):
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    message = {"role": "assistant", "content": text}
    sample = {"output_text": text, "output_json": parsed(text), "output_tools": [], "choices": [{"message": message}]}
    return grade_with(GRADER, sample, dict(row) if COLUMN is None else json.loads(row[COLUMN]))

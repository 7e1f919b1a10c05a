"""1 where the number that the completion answers is that of the row, else 0. A row without one: no reward.

The number: in the last <answer>…</answer>, else the last \\boxed{…}, else after the last ####, else the last number of
the text. where: only one of these (tag, boxed, hashes, last), or auto. Understood: 1,234.5  -3  1/2  \\frac{1}{2}  2e-3
2 \\times 10^{-3}  $12  5 cm^2  50% (as 0.5 and as 50, where only one of the two has a %). column: the column with the
number, or with a text that answers it in the same way. relative, absolute: how far off it may be, of the answer and by
itself.
"""
import re
from fractions import Fraction

NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][-+]?\d{1,3})?"
EXPONENT = r"\s?\{\s?([-+]?\d{1,3})\s?\}|\s?([-+]?\d{1,3})"
TIMES = r"\s?(?:\\times|\\cdot|[x*×·])\s?"  # with one space: any number of them would take long to look through
POWER = re.compile(rf"(?:(?<![\w.,])({NUMBER}){TIMES})?(?<![\d.,])10\s?(?:\^|\*\*)(?:{EXPONENT})")
UNIT = re.compile(rf"(?<=[A-Za-z}}])\s?\^(?:{EXPONENT})")  # its exponent is no number of its own
FRACTION = re.compile(r"([-+]?)\\[dt]?frac\{([^{}]{1,100})\}\{([^{}]{1,100})\}")
SHORT_FRACTION = re.compile(r"([-+]?)\\[dt]?frac\s*(\d)\s*(\d)")
FOUND = re.compile(rf"(?<![\w.])({NUMBER}(?:\s*/\s*{NUMBER})?)\s*(\\?%)?")


def number(text):
    """(value, had a percent sign) of the last number in the text, or None."""
    text = text.replace("\u2212", "-").replace("\\,", "").replace("\\!", "").replace("$", "").replace("{,}", ",")
    text = POWER.sub(lambda m: f"{m[1] or 1}e{m[2] or m[3]}", text[-20000:])
    text = SHORT_FRACTION.sub(r" \1\2/\3 ", FRACTION.sub(r" \1\2/\3 ", UNIT.sub(" ", text)))
    for match in reversed(list(FOUND.finditer(text))):
        value = exact(match[1])
        if value is not None:
            return (value / 100 if match[2] else value), bool(match[2])
    return None


def exact(text):
    top, _, bottom = text.replace(",", "").replace(" ", "").partition("/")
    if not any(c.isdigit() for c in top) or len(text) > 400:
        return None
    try:
        return Fraction(top) / (Fraction(bottom) if any(c.isdigit() for c in bottom) else 1)
    except (ValueError, ZeroDivisionError):
        return None


def boxed(text):
    """What the last \\boxed{…} holds, braces inside it and all."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth = 0
    for at in range(start + 6, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + 7 : at]
    return None


def tagged(text):
    """What the last <answer>…</answer> holds."""
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, end) if end >= 0 else -1
    return text[start + 8 : end] if start >= 0 else None


def answered(text, where):
    inside = tagged(text) if where in ("auto", "tag") else None
    if inside is not None or where == "tag":
        return number(inside) if inside is not None else None
    inside = boxed(text) if where in ("auto", "boxed") else None
    if inside is not None or where == "boxed":
        return number(inside) if inside is not None else None
    if where == "hashes" or (where == "auto" and "####" in text):
        return number(text.rsplit("####", 1)[1]) if "####" in text else None
    return number(text)


def reward(completions, column="answer", where="auto", relative=1e-6, absolute=0.0, **columns):
    def one(completion, answer):
        if answer is None or isinstance(answer, bool):
            return None
        expected = answered(answer if isinstance(answer, str) else repr(answer), "auto")
        if expected is None:
            raise ValueError(f"the column {column!r} has no number: {str(answer)[:80]!r}")
        said = answered(text_of(completion), where)
        if said is None:
            return 0.0
        times = Fraction(100) if said[1] else Fraction(1, 100)
        values = [said[0]] if said[1] == expected[1] else [said[0], said[0] * times]
        far = min(abs(value - expected[0]) for value in values)
        return float(far <= abs(expected[0]) * Fraction(relative) or far <= Fraction(absolute))

    return [one(c, a) for c, a in zip(completions, column_of(columns, column, len(completions)))]

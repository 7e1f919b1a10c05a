"""1 where the pattern is found in the completion, else 0. A row without a pattern: no reward.

pattern: a regular expression of Python; a column `pattern` of the rows has one for each row and wins. full: the whole
completion must match, without the white space at its ends. flags: any of i (case), m (lines), s (dot matches all).
"""
import re


def reward(completions, pattern=None, full=False, flags="", **columns):
    patterns = pattern if isinstance(pattern, list) else [pattern] * len(completions)
    if pattern is None:
        raise ValueError("there is no pattern: give the parameter `pattern`, or rows with a column `pattern`")
    flag = sum({"i": re.I, "m": re.M, "s": re.S}[f] for f in set(flags))

    def one(completion, sought):
        if sought is None:
            return None
        text = text_of(completion)
        return float(bool(re.fullmatch(sought, text.strip(), flag) if full else re.search(sought, text, flag)))

    return [one(c, p) for c, p in zip(completions, patterns)]

"""1 where the completion is the answer, else 0. A list of answers: any of them. A row without one: no reward.

column: the column with the answer. ignore_case: upper and lower case are the same. collapse_spaces: runs of white space
are one space. White space at both ends never counts, nor whether an accent is a character of its own.
"""
import json
import unicodedata


def reward(completions, column="answer", ignore_case=False, collapse_spaces=False, **columns):
    def plain(text):
        text = " ".join(text.split()) if collapse_spaces else text.strip()
        return unicodedata.normalize("NFC", text.casefold() if ignore_case else text)

    def one(completion, answer):
        if answer is None:
            return None
        answers = answer if isinstance(answer, list) else [answer]
        said = plain(text_of(completion))
        return float(any(said == plain(a if isinstance(a, str) else json.dumps(a, ensure_ascii=False)) for a in answers))

    return [one(c, a) for c, a in zip(completions, column_of(columns, column, len(completions)))]

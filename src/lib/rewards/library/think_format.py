"""1 where the completion is <think>…</think> and then an answer, else 0.

Each tag must be there once, something between them, and something after them. tag: the name of the tag. answer_tag:
what follows must be <answer_tag>…</answer_tag> and nothing else. opened: the prompt ends with the opening tag, so the
completion begins inside it. partial: a quarter for each of: begins with the tag (or inside it), the tag closes once,
thoughts that are not empty, an answer that is not empty.
"""


def reward(completions, tag="think", answer_tag=None, opened=False, partial=False, **columns):
    first, last = f"<{tag}>", f"</{tag}>"

    def answered(after):
        after = after.strip()
        if not answer_tag:
            return bool(after)
        begin, end = f"<{answer_tag}>", f"</{answer_tag}>"
        whole = after.startswith(begin) and after.endswith(end) and after.count(begin) == after.count(end) == 1
        return whole and bool(after[len(begin) : -len(end)].strip())

    def one(completion):
        text = text_of(completion).strip()
        if not opened:
            begins = text.startswith(first) and text.count(first) == 1
            text = text[len(first) :] if begins else text
        else:
            begins = first not in text
        thought, _, after = text.partition(last)
        closes = text.count(last) == 1
        checks = [begins, closes, closes and bool(thought.strip()), closes and answered(after)]
        return sum(checks) / 4 if partial else float(all(checks))

    return [one(c) for c in completions]

"""1 where the completion is JSON, else 0. NaN and Infinity are no JSON.

type: also of this type (object, array, string, number, boolean, null). fenced: a completion with exactly one block
fenced by ``` is judged by what is in the block. What is nested more than 100 deep is no JSON here.
"""

TYPES = {"object": dict, "array": list, "string": str, "number": (int, float), "boolean": bool, "null": type(None)}


def reward(completions, type=None, fenced=True, **columns):
    def one(completion):
        try:
            found = json_of(text_of(completion), fenced)
        except (ValueError, RecursionError):
            return 0.0
        if type is None:
            return 1.0
        return float(isinstance(found, TYPES[type]) and not (type == "number" and isinstance(found, bool)))

    return [one(c) for c in completions]

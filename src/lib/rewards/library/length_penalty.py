"""0 for a completion of the right length, falling smoothly to -1 for one that is far too long or too short.

unit: characters or words. target: up to here nothing is taken off. max: -1 from here on; between the two along half a
cosine. min: below it the penalty grows in the same way, to -1 for an empty completion (0: short ones are right).
"""
import math


def reward(completions, target=1000, max=2000, min=0, unit="characters", **columns):
    def fall(share):
        return -(1 - math.cos(math.pi * (0 if share < 0 else 1 if share > 1 else share))) / 2

    def one(completion):
        text = text_of(completion)
        length = len(text.split()) if unit == "words" else len(text)
        if length < min:
            return fall((min - length) / min)
        if length <= target:
            return 0.0
        return fall((length - target) / (max - target)) if max > target else -1.0

    return [one(c) for c in completions]

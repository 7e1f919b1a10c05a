"""Reference values for src/resources/quality/statistics, made with SciPy and NumPy.

    python3 scripts/reference/statistics_reference.py > src/resources/quality/statistics/reference.json
    bunx biome format --write src/resources/quality/statistics/reference.json

SciPy has no kappa and no alpha. These two come from another method than the product's: kappa by going through all
pairs of an item of one annotator with an item of the other, alpha by going through all pairs of labels.
Krippendorff's own example (2011) has the published values 0.743 (nominal), 0.815 (ordinal) and 0.849 (interval).
"""
import itertools
import json
from fractions import Fraction

import numpy as np
import scipy
from scipy import stats

rng = np.random.default_rng(21)
# Darwin's maize: cross-fertilised minus self-fertilised plants, in eighths of an inch.
DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
# Student's sleep data: extra hours, drug 2 minus drug 1. It has a tie and a zero.
SLEEP = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
TIES = [1, 1, -1, 2, 2, -2, 3, 0, 0, 4, -1, 1]
SMALL = [0.5, -0.25, 1.5]
WIDE = [round(float(x), 3) for x in rng.normal(0.4, 1.5, 60)]
LARGE = [int(x) for x in rng.integers(-3, 5, 150)]


def plain(value):
    return float(value)


def paired_t(deltas):
    result = stats.ttest_1samp(deltas, 0)
    return {"statistic": plain(result.statistic), "p": plain(result.pvalue)}


def sign_flip(deltas):
    result = stats.permutation_test(
        (np.array(deltas, dtype=float),), np.mean, permutation_type="samples", n_resamples=np.inf)
    return {"statistic": plain(result.statistic), "p": plain(result.pvalue)}


def bootstrap(values):
    result = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=200_000, rng=np.random.default_rng(7))
    return {"low": plain(result.confidence_interval.low), "high": plain(result.confidence_interval.high)}


def kappa(a, b, order, weights):
    cost = {"none": lambda i, j: i != j, "linear": lambda i, j: abs(i - j), "quadratic": lambda i, j: (i - j) ** 2}[weights]
    both = [(order.index(x), order.index(y)) for x, y in zip(a, b) if x is not None and y is not None]
    n = len(both)
    seen = Fraction(sum(cost(i, j) for i, j in both), n)
    chance = Fraction(sum(cost(i, j) for i, _ in both for _, j in both), n * n)
    return float(1 - seen / chance)


def alpha(units, order, level):
    units = [[v for v in unit if v is not None] for unit in units]
    units = [unit for unit in units if len(unit) > 1]
    everything = [v for unit in units for v in unit]
    n = len(everything)

    def distance(a, b):
        if level == "nominal":
            return int(a != b)
        if level == "interval":
            return (Fraction(a) - Fraction(b)) ** 2
        low, high = sorted((order.index(a), order.index(b)))
        between = sum(everything.count(order[k]) for k in range(low, high + 1))
        return (between - Fraction(everything.count(a) + everything.count(b), 2)) ** 2

    observed = sum(Fraction(sum(distance(a, b) for a, b in itertools.permutations(unit, 2)), 1) / (len(unit) - 1)
                   for unit in units) / n
    expected = Fraction(sum(distance(a, b) for a, b in itertools.permutations(everything, 2)), 1) / (n * (n - 1))
    return float(1 - observed / expected)


N = None
KRIPPENDORFF = list(zip(
    [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
    [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N]))
SCALE = [1, 2, 3, 4, 5]
WORDS = ["poor", "fair", "good", "great"]
RATER_A = [WORDS[i] for i in rng.integers(0, 4, 60)]
RATER_B = [w if rng.random() < 0.55 else WORDS[int(rng.integers(0, 4))] for w in RATER_A]
RATER_B = [None if i % 11 == 3 else w for i, w in enumerate(RATER_B)]
FRACTIONS = [[float(x) if rng.random() > 0.25 else None for x in rng.integers(0, 40, 3) / 8] for _ in range(25)]

tests = {}
for name, deltas in {"darwin": DARWIN, "sleep": SLEEP, "ties": TIES, "small": SMALL, "wide": WIDE, "large": LARGE}.items():
    case = {"deltas": deltas, "t": paired_t(deltas), "mean": float(np.mean(deltas)), "standard_error": plain(stats.sem(deltas))}
    if len(deltas) <= 16:
        case["sign_flip"] = sign_flip(deltas)
    case["interval"] = bootstrap(deltas)
    tests[name] = case

print(json.dumps({
    "source": f"SciPy {scipy.__version__}, NumPy {np.__version__}; kappa and alpha by going through all pairs with fractions",
    "paired": tests,
    "student": [[t, df, plain(2 * stats.t.sf(t, df))] for t in (0, 0.1, 1, 2.5, 8, 40) for df in (1, 2, 9, 30, 500, 20000)],
    "mcnemar": [[b, c, plain(stats.binomtest(b, b + c, 0.5).pvalue)]
                for b, c in ((0, 5), (1, 9), (6, 6), (12, 5), (121, 59), (900, 1010), (7, 6))],
    "kappa": [
        {"first": RATER_A, "second": RATER_B, "categories": WORDS, "weights": w, "value": kappa(RATER_A, RATER_B, WORDS, w)}
        for w in ("none", "linear", "quadratic")],
    "alpha": [
        *({"units": KRIPPENDORFF, "categories": SCALE, "level": level, "value": alpha(KRIPPENDORFF, SCALE, level)}
          for level in ("nominal", "ordinal", "interval")),
        *({"units": list(zip(RATER_A, RATER_B)), "categories": WORDS, "level": level,
           "value": alpha(list(zip(RATER_A, RATER_B)), WORDS, level)} for level in ("nominal", "ordinal")),
        {"units": FRACTIONS, "categories": None, "level": "interval", "value": alpha(FRACTIONS, None, "interval")},
    ],
}))

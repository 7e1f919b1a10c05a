"""From logits and features to answers, as the product computes them (src/workers/detector/kinds.ts, unlike.ts), in NumPy.

`made` is the JSON beside the weights: pooling, temperature and isotonic for every image; `whole` with the weights of the
crops' logit and of the whole image's; `kinds` with a linear map from features to kinds of content and a curve for each kind;
`unlike` with the spread of the features in training and a limit. The curves are bounded: they keep the promises of the tiers.

Rows that are fitted on are answers of folds: images whose source and generator their fold had not trained on.
"""
import numpy as np

from protocol import calibrate, folds, metrics

FEWEST = 40  # images of each label for a curve of their own
STEPS, RATE, DECAY = 400, 0.05, 1e-3
UNLIKE_QUANTILE = 0.995


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def spread_of(features):
    return features.mean(0), features.std(0) + 1e-4


def distances(features, mean, deviation):
    """How many deviations the features lie from those of training, by the root mean square."""
    return np.sqrt((((features - mean) / deviation) ** 2).mean(1))


def kind_map(features, content, names):
    """(weight (K, D), bias (K,)) of a logistic regression, every kind alike. Adam on standardised features."""
    mean, deviation = spread_of(features)
    x = (features - mean) / deviation
    target = np.array([[c == n for n in names] for c in content], dtype=np.float64)
    weight = (target / target.sum(0).clip(min=1)).sum(1)
    weight /= weight.sum()
    w = np.zeros((len(names), x.shape[1] + 1))
    x1 = np.hstack([x, np.ones((len(x), 1))])
    m, v = np.zeros_like(w), np.zeros_like(w)
    for step in range(1, STEPS + 1):
        g = ((softmax(x1 @ w.T) - target) * weight[:, None]).T @ x1 + DECAY * w
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w -= RATE * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    scaled = w[:, :-1] / deviation
    return scaled, w[:, -1] - scaled @ mean


def curves_of(pooled, label, source, content):
    """{kind: {temperature, isotonic}} of the kinds with enough images of each label."""
    out = {}
    for name in sorted(set(content.tolist())):
        mine = content == name
        if min((label[mine] > 0.5).sum(), (label[mine] < 0.5).sum()) >= FEWEST:
            t, table = calibrate.fitted(pooled[mine], label[mine], source[mine])
            out[name] = {"temperature": t, "isotonic": table}
    return out


def spread_and_kinds(features, content):
    """What a network knows of its training images: where features lie, and which kind of content they speak for."""
    names = sorted(set(content.tolist()))
    weight, bias = kind_map(features, content, names)
    mean, deviation = spread_of(features)
    return {"names": names, **{k: rounded(v) for k, v in
                               (("weight", weight), ("bias", bias), ("mean", mean), ("deviation", deviation))}}


def seen(spread, logits, features):
    """What is kept of tested images: logits, shares of the kinds, distances from training."""
    share = softmax(features @ np.array(spread["weight"]).T + np.array(spread["bias"]))
    far = distances(features, np.array(spread["mean"]), np.array(spread["deviation"]))
    return {"logit": rounded(logits), "share": np.round(share, 4).tolist(), "distance": np.round(far, 4).tolist()}


def logistic(columns, label, weight, ridge=1e-3, steps=30):
    """Weights of the columns and a bias, by Newton's method."""
    x = np.hstack([columns, np.ones((len(columns), 1))])
    w = np.zeros(x.shape[1])
    for _ in range(steps):
        p = calibrate.sigmoid(x @ w)
        curvature = (x * (weight * p * (1 - p))[:, None]).T @ x + ridge * np.eye(len(w)) * weight.sum()
        w -= np.linalg.solve(curvature, x.T @ (weight * (p - label)) + ridge * weight.sum() * w)
    return w


def conditional(label, score, content):
    """The mean of the AUROC inside each kind of content; over all where no kind has both labels."""
    inside = [metrics.auroc(label[content == c], score[content == c]) for c in sorted(set(content.tolist()))]
    inside = [a for a in inside if not np.isnan(a)]
    return float(np.mean(inside)) if inside else metrics.auroc(label, score)


LEAST_GAIN = 0.005


def joined_with_whole(rows, crops, whole):
    """{crops, whole, bias} if the whole image helps inside kinds of content, else nothing."""
    weight = metrics.source_weights(rows["label"], rows["source"])
    a, b, c = logistic(np.stack([crops, whole], 1), rows["label"], weight)
    gain = conditional(rows["label"], a * crops + b * whole, rows["content"]) - conditional(rows["label"], crops, rows["content"])
    return {"crops": round(a, 5), "whole": round(b, 5), "bias": round(c, 5)} if a > 0 and b > 0 and gain >= LEAST_GAIN else None


def fitted(rows, member, whole):
    """`made` of a member but for its network's own parts. rows: label, source, content; member: logit, distance; whole: logits."""
    together = joined_with_whole(rows, member["logit"], whole)
    logit = combined({"whole": together} if together else {}, member["logit"], whole)
    t, table = calibrate.fitted(logit, rows["label"], rows["source"])
    made = {"pooling": {"kind": "mean"}, "temperature": t, "isotonic": table,
            "curves": curves_of(logit, rows["label"], rows["source"], rows["content"]),
            "limit": round(float(np.quantile(member["distance"], UNLIKE_QUANTILE)), 4)}
    return {**made, "whole": together} if together else made


def combined(made, crops, whole):
    w = made.get("whole")
    return w["crops"] * crops + w["whole"] * whole + w["bias"] if w else crops


def answered(made, names, member, whole):
    """(scores, unlike) of rows of a fold."""
    logit = combined(made, member["logit"], whole)
    return scored(made, made["curves"], names, logit, member["share"]), member["distance"] > made["limit"]


def complete(made, spread):
    """The JSON of a network to ship: what was fitted on the folds, and its own spread and kinds."""
    rest = {k: v for k, v in made.items() if k not in ("curves", "limit")}
    return {**rest, "kinds": {"names": spread["names"], "weight": spread["weight"], "bias": spread["bias"], "curves": made["curves"]},
            "unlike": {"mean": spread["mean"], "deviation": spread["deviation"], "limit": made["limit"]}}


def rounded(values):
    return np.round(np.asarray(values, dtype=np.float64), 6).tolist()


def scored(made, curves, names, logit, share):
    whole = calibrate.applied(logit, made["temperature"], made["isotonic"])
    score = np.zeros(len(logit))
    for i, name in enumerate(names):
        curve = curves.get(name)
        score += share[:, i] * (calibrate.applied(logit, curve["temperature"], curve["isotonic"]) if curve else whole)
    return score


def applied(made, pooled, features):
    """(scores, unlike) of one member, from features."""
    kinds, unlike = made["kinds"], made["unlike"]
    share = softmax(features @ np.array(kinds["weight"]).T + np.array(kinds["bias"]))
    score = scored(made, kinds["curves"], kinds["names"], pooled, share)
    return score, distances(features, np.array(unlike["mean"]), np.array(unlike["deviation"])) > unlike["limit"]


def proven(rows):
    """{detector: threshold of `ai`}: each is proven for the detector alone, and the highest for all together, as the product uses them.

    `rows`: answers of all folds (answers.scored), of which those with a named generator count. None: never `ai`.
    """
    rows = [r for r in rows if folds.is_named(r)]
    label = [r["label"] == "ai" for r in rows]
    alone = {}
    for name in sorted(rows[0]["alone"]):
        score, unlike = zip(*(r["alone"][name] for r in rows))
        alone[name] = threshold_of(score, label, unlike)
    if None in alone.values():  # the product then never says `ai` together, whatever the other one has proven
        return alone
    highest = max(alone, key=lambda n: alone[n])
    one = [r["alone"][highest] for r in rows]
    both = [(r["score"], r["unlike"]) for r in rows]
    # A higher threshold can fail where a lower one holds, so each candidate is checked alone and together.
    candidates = sorted({s for s, _ in one + both if s >= alone[highest]})
    return {**alone, highest: next((t for t in candidates if is_right(t, one, label) and is_right(t, both, label)), None)}


MOST_ACCUSED = 0.05


def likely(rows):
    """The score that at most 5 of 100 real images reach, in the kind of content where most do. Both detectors and each alone."""
    real = [r for r in rows if r["label"] != "ai"]
    scores = {"together": lambda r: r["score"], **{n: (lambda r, n=n: r["alone"][n][0]) for n in sorted(real[0]["alone"])}}
    by_kind = [[r for r in real if r["content"] == kind] for kind in sorted({r["content"] for r in real})]
    return max(float(np.quantile([of(r) for r in kind], 1 - MOST_ACCUSED, method="higher")) for kind in by_kind for of in scores.values())


def even(rows, width=0.05):
    """The lowest score around which generated images are as many as real ones, every source and both labels alike."""
    label = np.array([float(r["label"] == "ai") for r in rows])
    score, weight = np.array([r["score"] for r in rows]), metrics.source_weights(label, [r["source"] for r in rows])
    for at in np.arange(0.4, 0.8, 0.01):
        near = np.abs(score - at) <= width
        if near.any() and (weight * label)[near].sum() >= weight[near].sum() / 2:
            return round(float(at), 2)
    return 0.8


def bounded(complete, even, likely, ai):
    """The JSON of a network whose curves, also those by kind, keep the promises of the tiers."""
    likely = max(likely, even + 0.01)
    ai = None if ai is None else max(ai, likely + 0.01)
    curve = lambda table: calibrate.bounded(table, even, likely, ai)
    kinds = complete["kinds"]
    curves = {name: {**each, "isotonic": curve(each["isotonic"])} for name, each in kinds["curves"].items()}
    return {**complete, "isotonic": curve(complete["isotonic"]), "kinds": {**kinds, "curves": curves}}


def is_right(threshold, answers, label):
    """Whether `ai` is right often enough from this threshold on, or is never said."""
    called = [y for (score, unlike), y in zip(answers, label) if score >= threshold and not unlike]
    return not called or (len(called) >= folds.FEWEST_CALLED and sum(called) >= folds.LEAST_RIGHT * len(called))


def threshold_of(score, label, unlike):
    """The tier's threshold by images that were not trained on; images unlike training are never called `ai`."""
    return folds.ai_threshold([(float(s), y > 0.5) for s, y, u in zip(score, label, unlike) if not u])

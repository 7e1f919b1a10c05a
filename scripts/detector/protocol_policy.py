"""From logits and features to answers, as the product computes them (src/lib/detection/kinds.ts, unlike.ts), in NumPy.

`made` is the JSON beside the weights: pooling, temperature and isotonic for every image; `kinds` with a linear map from
features to kinds of content and a curve for each kind; `unlike` with the spread of the features in training and a limit;
`tiers` with the score from which on `ai` may be said, or null.
"""
import numpy as np

import calibrate
import protocol_folds as folds

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


def learned(train, choose, pooling):
    """`made` of a member. `train`: features and content; `choose`: pooled logits, features and rows, not trained on."""
    names = sorted(set(train["content"].tolist()))
    weight, bias = kind_map(train["features"], train["content"], names)
    mean, deviation = spread_of(train["features"])
    t, table = calibrate.fitted(choose["pooled"], choose["label"], choose["source"])
    limit = float(np.quantile(distances(choose["features"], mean, deviation), UNLIKE_QUANTILE))
    return {"pooling": pooling, "temperature": t, "isotonic": table,
            "kinds": {"names": names, "weight": rounded(weight), "bias": rounded(bias),
                      "curves": curves_of(choose["pooled"], choose["label"], choose["source"], choose["content"])},
            "unlike": {"mean": rounded(mean), "deviation": rounded(deviation), "limit": round(limit, 4)}}


def rounded(values):
    return np.round(np.asarray(values, dtype=np.float64), 6).tolist()


def applied(made, pooled, features):
    """(scores, unlike) of one member."""
    kinds, unlike = made["kinds"], made["unlike"]
    share = softmax(features @ np.array(kinds["weight"]).T + np.array(kinds["bias"]))
    whole = calibrate.applied(pooled, made["temperature"], made["isotonic"])
    score = np.zeros(len(pooled))
    for i, name in enumerate(kinds["names"]):
        curve = kinds["curves"].get(name)
        score += share[:, i] * (calibrate.applied(pooled, curve["temperature"], curve["isotonic"]) if curve else whole)
    return score, distances(features, np.array(unlike["mean"]), np.array(unlike["deviation"])) > unlike["limit"]


def threshold_of(score, label, unlike):
    """The tier's threshold by images that were not trained on; images unlike training are never called `ai`."""
    return folds.ai_threshold([(float(s), y > 0.5) for s, y, u in zip(score, label, unlike) if not u])

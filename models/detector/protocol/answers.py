"""Answers of the outer folds: what is fitted on logits is fitted, for each fold, on the images of the other folds."""
import numpy as np

from protocol import folds, policy


def arrays(rows):
    return {"label": np.array([float(r["label"] == "ai") for r in rows]), "source": np.array([r["source"] for r in rows]),
            "content": np.array([r["content"] for r in rows]), "named": np.array([folds.is_named(r) for r in rows])}


class Fold:
    """The tested rows of a fold, with what its networks said of them, as they are or after a change."""

    def __init__(self, given, by_file, names):
        self.names, self.given = names, given
        self.rows = [by_file[f] for f in given["files"]["clean"]]
        self.about = arrays(self.rows)

    def seen(self, change="clean"):
        """({member: {logit, share, distance}}, {network for the whole image: logits})"""
        members = {m: {k: np.array(v) for k, v in each[change].items()} for m, each in self.given["members"].items()}
        return members, {name: np.array(v) for name, v in self.given["whole"][change].items()}


def pooled(parts):
    """(rows, members, whole) of several folds in one, of images whose generator is named."""
    keep = [p.about["named"] for p in parts]
    about = {k: np.concatenate([p.about[k][n] for p, n in zip(parts, keep)]) for k in parts[0].about}
    each = [p.seen() for p in parts]
    members = {m: {k: np.concatenate([e[0][m][k][n] for e, n in zip(each, keep)]) for k in each[0][0][m]} for m in each[0][0]}
    whole = {name: np.concatenate([e[1][name][n] for e, n in zip(each, keep)]) for name in each[0][1]}
    return about, members, whole


def chosen(about, members, detectors):
    """For each detector the network that is better inside kinds of content."""
    value = {n: policy.conditional(about["label"], m["logit"], about["content"]) for n, m in members.items()}
    best = {}
    for name in sorted(members, key=lambda n: (value[n], n)):
        best[detectors[name]] = name
    return [n for n in members if n in best.values()]


def fitted(parts, detectors):
    """{made: {member: …}, whole, threshold}: from the answers of these folds. detectors: {network: the detector that it may become}."""
    about, members, whole = pooled(parts)
    best = max(sorted(whole), key=lambda n: policy.conditional(about["label"], whole[n], about["content"]))
    made = {name: policy.fitted(about, members[name], whole[best]) for name in chosen(about, members, detectors)}
    each = judged(made, parts[0].names, members, whole[best])
    score, unlike = together(each)
    return {"made": made, "whole": best, "threshold": policy.threshold_of(score, about["label"], unlike)}


def judged(made, names, members, whole):
    """{member: (scores, unlike)} of the members that were chosen."""
    return {name: policy.answered(made[name], names[name], members[name], whole) for name in made}


def together(each):
    """The mean score of the members; unlike where every one says so."""
    return np.mean([s for s, _ in each.values()], 0), np.all([u for _, u in each.values()], 0)


def scored(parts, detectors):
    """Rows of all folds with score, alone, unlike, called and conditions, each by what the other folds fitted.

    `alone`: {detector: (score, unlike)}."""
    out = []
    for k, part in enumerate(parts):
        known = fitted(parts[:k] + parts[k + 1 :], detectors)
        members, whole = part.seen()
        each = judged(known["made"], part.names, members, whole[known["whole"]])
        score, unlike = together(each)
        limit = known["threshold"]
        rows = [{**row, "score": float(s), "unlike": bool(u), "called": limit is not None and bool(s >= limit) and not u, "conditions": {},
                 "alone": {detectors[name]: (float(a[0][i]), bool(a[1][i])) for name, a in each.items()}}
                for i, (row, s, u) in enumerate(zip(part.rows, score, unlike))]
        place = {row["file"]: row for row in rows}
        for change, files in part.given["files"].items():
            if change != "clean" and files:
                members, whole = part.seen(change)
                after, _ = together(judged(known["made"], part.names, members, whole[known["whole"]]))
                for file, value in zip(files, after):
                    place[file]["conditions"][change] = float(value)
        out += rows
    return out

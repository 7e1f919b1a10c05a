"""Answers of the outer folds: what is fitted on logits is fitted, for each fold, on the images of the other folds."""
import numpy as np

import protocol_folds as folds
import protocol_policy as policy


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
        """({member: {logit, share, distance}}, whole logits)"""
        members = {m: {k: np.array(v) for k, v in each[change].items()} for m, each in self.given["members"].items()}
        return members, np.array(self.given["whole"][change])


def pooled(parts):
    """(rows, members, whole) of several folds in one, of images whose generator is named."""
    keep = [p.about["named"] for p in parts]
    about = {k: np.concatenate([p.about[k][n] for p, n in zip(parts, keep)]) for k in parts[0].about}
    each = [p.seen() for p in parts]
    members = {m: {k: np.concatenate([e[0][m][k][n] for e, n in zip(each, keep)]) for k in each[0][0][m]} for m in each[0][0]}
    return about, members, np.concatenate([e[1][n] for e, n in zip(each, keep)])


def chosen(about, members, detectors):
    """For each detector the network that is better inside kinds of content."""
    value = {n: policy.conditional(about["label"], m["logit"], about["content"]) for n, m in members.items()}
    best = {}
    for name in sorted(members, key=lambda n: (value[n], n)):
        best[detectors[name]] = name
    return [n for n in members if n in best.values()]


def fitted(parts, detectors):
    """{made: {member: …}, threshold}: from the answers of these folds. detectors: {network: the detector that it may become}."""
    about, members, whole = pooled(parts)
    made = {name: policy.fitted(about, members[name], whole) for name in chosen(about, members, detectors)}
    score, unlike = judged(made, parts[0].names, members, whole)
    return {"made": made, "threshold": policy.threshold_of(score, about["label"], unlike)}


def judged(made, names, members, whole):
    """The mean score of the members that were chosen; unlike where every one says so."""
    each = [policy.answered(made[name], names[name], members[name], whole) for name in made]
    return np.mean([s for s, _ in each], 0), np.all([u for _, u in each], 0)


def scored(parts, detectors):
    """Rows of all folds with score, unlike, called and conditions, each by what the other folds fitted."""
    out = []
    for k, part in enumerate(parts):
        known = fitted(parts[:k] + parts[k + 1 :], detectors)
        score, unlike = judged(known["made"], part.names, *part.seen())
        limit = known["threshold"]
        rows = [{**row, "score": float(s), "unlike": bool(u), "called": limit is not None and bool(s >= limit) and not u, "conditions": {}}
                for row, s, u in zip(part.rows, score, unlike)]
        place = {row["file"]: row for row in rows}
        for change, files in part.given["files"].items():
            if change != "clean" and files:
                after, _ = judged(known["made"], part.names, *part.seen(change))
                for file, value in zip(files, after):
                    place[file]["conditions"][change] = float(value)
        out += rows
    return out

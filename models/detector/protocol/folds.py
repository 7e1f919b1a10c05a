"""Which images are trained on and which are tested: decisions alone, without a library.

A row is a dict of an index: label (ai or real), source, family, content, sha256 of the file, and maybe `group`: what the same people
collected, such as a repository. Folds divide generator families and, for images without a named generator, groups. A tested image
shares no named family, source, group or file with the training images of its fold: images that share one are left out of that fold.
"""
import collections
import hashlib

OUTER = 4
UNNAMED = ("mixed", "other", "unknown")  # families whose images may come from any generator
NEEDED = ("file", "label", "source", "family", "content")


class Refused(Exception):
    """The data cannot be used; the message says how to fix it."""


def checked(rows, excluded=frozenset()):
    """The rows, if they can be used. `excluded`: hashes of repositories that are kept for an independent test."""
    for i, row in enumerate(rows):
        missing = [name for name in NEEDED if not row.get(name)]
        if missing:
            raise Refused(f"row {i + 1} of the index has no {', '.join(missing)}")
        if row["label"] not in ("ai", "real"):
            raise Refused(f"row {i + 1} of the index has the label {row['label']!r}; use ai or real")
        if hidden(row.get("repository", "")) in excluded:
            raise Refused(f"{row['repository']} is kept for the independent test; remove the source {row['source']}")
    labels = {}
    for row in rows:
        if labels.setdefault(row.get("sha256") or row["file"], row["label"]) != row["label"]:
            raise Refused(f"{row['file']} has both labels; remove it from one source")
    return rows


def hidden(repository):
    return hashlib.sha256(repository.lower().encode()).hexdigest()[:24]


def is_named(row):
    return row["family"].lower() not in UNNAMED


def traits_of(row):
    """Properties that a training image and a tested image of one fold must not share."""
    traits = [("source", row["source"]), ("file", row.get("sha256") or row["file"])]
    if row.get("group"):
        traits.append(("group", row["group"]))
    if is_named(row) and row["label"] == "ai":
        traits.append(("family", row["family"].lower()))
    return traits


def unit_of(row):
    """The unit that folds do not divide: a generator family, or the images of one group and label."""
    if is_named(row) and row["label"] == "ai":
        return ("family", row["family"].lower())
    return ("group", row.get("group") or row["source"], row["label"])


def divided(rows, parts):
    """The part of each row. Each unit, the largest first, goes to the part where it evens out labels and kinds of content best."""
    cells = [(row["label"], row["content"]) for row in rows]
    total = collections.Counter(cells)
    holds = collections.defaultdict(collections.Counter)
    for row, cell in zip(rows, cells):
        holds[unit_of(row)][cell] += 1
    load = [collections.Counter() for _ in range(parts)]
    part_of = {}
    for unit in sorted(holds, key=lambda u: (-sum(holds[u].values()), u)):
        def crowded(part):
            return sum(((load[part][cell] + n) / total[cell]) ** 2 - (load[part][cell] / total[cell]) ** 2
                       for cell, n in holds[unit].items())
        part_of[unit] = min(range(parts), key=lambda part: (crowded(part), sum(load[part].values()), part))
        load[part_of[unit]].update(holds[unit])
    return [part_of[unit_of(row)] for row in rows]


def apart_from(rows, others):
    """The rows that share no trait with the others."""
    shared = {trait for row in others for trait in traits_of(row)}
    return [row for row in rows if shared.isdisjoint(traits_of(row))]


def version_of(rows):
    """The data version: a hash of images, labels, sources, families and kinds of content, in any order of the rows."""
    lines = sorted("\t".join([row.get("sha256") or row["file"], *(row[n] for n in NEEDED[1:])]) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def planned(rows, outer=OUTER):
    """{version, folds: [{file: train | test}, …]}.

    Every image is tested in exactly one fold. Generated images of an unnamed family are never trained on in a fold, because
    their generator could be one that is tested.
    """
    part = divided(rows, outer)
    folds = []
    for k in range(outer):
        test = [row for row, p in zip(rows, part) if p == k]
        train = apart_from([row for row, p in zip(rows, part) if p != k and is_named(row)], test)
        for role, mine in (("train", train), ("test", test)):
            if {row["label"] for row in mine} != {"ai", "real"}:
                raise Refused(f"fold {k + 1} has no image of each label to {role}: add sources and generator families")
        folds.append({row["file"]: role for role, mine in (("train", train), ("test", test)) for row in mine})
    return {"version": version_of(rows), "folds": folds}


LEAST_RIGHT, FEWEST_CALLED = 0.95, 30  # of the images that are called `ai`


def ai_threshold(scores, least=LEAST_RIGHT, fewest=FEWEST_CALLED):
    """The lowest score from which on `ai` is right in `least` of the images, by (score, is_ai) of images not trained on.

    None: no threshold with `fewest` images reaches it, so the tier is never given.
    """
    called = right = 0
    best = None
    ordered = sorted(scores, key=lambda each: -each[0])
    for i, (score, is_ai) in enumerate(ordered):
        called, right = called + 1, right + bool(is_ai)
        is_last = i + 1 == len(ordered) or ordered[i + 1][0] < score
        if is_last and called >= fewest and right >= least * called:
            best = score
    return best

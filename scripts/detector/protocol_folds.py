"""Which images are trained on and which are tested: decisions alone, without a library.

Rows are dicts of an index: label (ai or real), source, family, content, sha256 of the file, maybe `group` (sources that
belong together) and `repository`. Images of one source, of one generator family or of one group, and equal files, are one
component. A component is never divided, so a tested image has neither its source nor its generator in training.
"""
import collections
import hashlib

OUTER = 5
INNER = 4  # one of these parts of a training fold chooses and calibrates
MOST_IN_ONE = 0.4  # of the generated images may be in one component
UNNAMED = ("mixed", "other", "unknown")  # families whose images may come from any generator
NEEDED = ("file", "label", "source", "family", "content")


class Refused(Exception):
    """The data cannot be used; the message says how to mend it."""


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


def keys_of(row):
    keys = [("source", row["source"]), ("file", row.get("sha256") or row["file"])]
    if is_named(row) and row["label"] == "ai":
        keys.append(("family", row["family"].lower()))
    if row.get("group"):
        keys.append(("group", row["group"]))
    return keys


def components(rows):
    """The number of the component of each row, in the order in which they first occur."""
    parent = {}

    def root(key):
        while parent.setdefault(key, key) != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for row in rows:
        first, *rest = keys_of(row)
        for key in rest:
            parent[root(key)] = root(first)
    numbers = {}
    return [numbers.setdefault(root(keys_of(row)[0]), len(numbers)) for row in rows]


def without_bridges(rows, most=MOST_IN_ONE):
    """(rows, sources set aside). A gallery of many generators joins their families into one component.

    While one component has more than `most` of the generated images, its smallest source of several families is set
    aside: in neither training nor test, since either would show a family to both.
    """
    rows, aside = list(rows), []
    while True:
        of = components(rows)
        generated = collections.Counter(c for c, row in zip(of, rows) if row["label"] == "ai")
        if not generated:
            return rows, aside
        largest, count = generated.most_common(1)[0]
        if count <= most * sum(generated.values()):
            return rows, aside
        families, sizes = collections.defaultdict(set), collections.Counter()
        for c, row in zip(of, rows):
            if c == largest and row["label"] == "ai":
                families[row["source"]].add(row["family"].lower())
                sizes[row["source"]] += 1
        bridges = sorted((sizes[s], s) for s, names in families.items() if len(names) > 1)
        if not bridges:
            return rows, aside
        aside.append(bridges[0][1])
        rows = [row for row in rows if row["source"] != bridges[0][1]]


def divided(rows, parts):
    """The part of each row. Whole components, the largest first, where they even out labels and kinds of content best."""
    of = components(rows)
    cells = [(row["label"], row["content"]) for row in rows]
    total = collections.Counter(cells)
    holds = collections.defaultdict(collections.Counter)
    for c, cell in zip(of, cells):
        holds[c][cell] += 1
    load = [collections.Counter() for _ in range(parts)]
    part_of = {}
    for c in sorted(holds, key=lambda c: (-sum(holds[c].values()), c)):
        def crowded(part):
            return sum(((load[part][cell] + n) / total[cell]) ** 2 - (load[part][cell] / total[cell]) ** 2
                       for cell, n in holds[c].items())
        part_of[c] = min(range(parts), key=lambda part: (crowded(part), sum(load[part].values()), part))
        load[part_of[c]].update(holds[c])
    return [part_of[c] for c in of]


def version_of(rows):
    """The data version: changes with every image, label, source, family and kind of content, and with nothing else."""
    lines = sorted("\t".join([row.get("sha256") or row["file"], *(row[n] for n in NEEDED[1:])]) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def planned(rows, outer=OUTER, inner=INNER):
    """{version, aside, folds: [{file: train | choose | test}, …]}; `choose` rows choose and calibrate, never train.

    Generated images of an unnamed family are tested, but never trained on: their generator could be one that is tested.
    """
    rows, aside = without_bridges(rows)
    part = divided(rows, outer)
    folds = []
    for k in range(outer):
        rest = [row for row, p in zip(rows, part) if p != k and is_named(row)]
        roles = {row["file"]: "test" for row, p in zip(rows, part) if p == k}
        roles.update((row["file"], "choose" if p == 0 else "train") for row, p in zip(rest, divided(rest, inner)))
        for role in ("train", "choose", "test"):
            labels = {row["label"] for row in rows if roles.get(row["file"]) == role}
            if labels != {"ai", "real"}:
                raise Refused(f"fold {k + 1} has no image of each label to {role}: add sources and generator families")
        folds.append(roles)
    return {"version": version_of(rows), "aside": aside, "folds": folds}


def ai_threshold(scores, least=0.95, fewest=30):
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

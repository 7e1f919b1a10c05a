"""Figures of the outer folds: inside each kind of content first, then over all; intervals by resampling sources."""
import numpy as np

from protocol import folds, metrics

SIZES = [(0, 256), (256, 512), (512, 1024), (1024, 1 << 30)]
DRAWS = 300
AS_IT_IS = "as it is"  # the regions that re-encodings are made of, without one


def resampled(label, source, rng):
    """Indices of a draw of whole sources, with replacement, in each label as many as there are."""
    out = []
    for y in (True, False):
        names, inverse = np.unique(source[label == y], return_inverse=True)
        mine = np.flatnonzero(label == y)
        members = [mine[inverse == i] for i in range(len(names))]
        out += [members[i] for i in rng.integers(0, len(names), len(names))] if names.size else []
    return np.concatenate(out) if out else np.zeros(0, int)


def interval(label, score, source, draws=DRAWS):
    """The 95 % interval of the AUROC over draws of sources."""
    rng = np.random.default_rng(11)
    values = []
    for _ in range(draws):
        pick = resampled(label, source, rng)
        if len(set(label[pick].tolist())) == 2:
            values.append(metrics.auroc(label[pick], score[pick]))
    return [round(float(v), 4) for v in np.quantile(values, [0.025, 0.975])] if values else None


def ranked(label, score, source, draws=DRAWS):
    ai, real = int(label.sum()), int((~label).sum())
    out = {"ai": ai, "real": real, "sources": len(set(source.tolist()))}
    if not ai or not real:
        return {**out, "auroc": None, "interval": None}
    return {**out, "auroc": round(metrics.auroc(label, score), 4), "interval": interval(label, score, source, draws)}


def by_content(rows, label, score, source, draws=DRAWS):
    content = np.array([r["content"] for r in rows])
    return {name: ranked(label[content == name], score[content == name], source[content == name], draws)
            for name in sorted(set(content.tolist()))}


def by_family(rows, label, score, source):
    """Each generator against the real images of the kinds of content that it has."""
    family = np.array([r["family"].lower() for r in rows])
    content = np.array([r["content"] for r in rows])
    out = {}
    for name in sorted(set(family[label].tolist())):
        mine = label & (family == name)
        keep = mine | (~label & np.isin(content, sorted(set(content[mine].tolist()))))
        out[name] = ranked(label[keep], score[keep], source[keep], draws=0)
    return out


def by_size(rows, label, score, source):
    short = np.array([min(int(r["width"]), int(r["height"])) for r in rows])
    out = {}
    for low, high in SIZES:
        keep = (short >= low) & (short < high)
        if keep.any():
            out[f"{low} to {high - 1}" if high < 1 << 30 else f"{low} and more"] = ranked(
                label[keep], score[keep], source[keep], draws=0)
    return out


def swapped(first, second):
    """AUROC between two encodings of the same real images: one half means that the encoder is not seen."""
    label = np.repeat([0.0, 1.0], [len(first), len(second)])
    return round(metrics.auroc(label, np.concatenate([first, second])), 4)


def figures(rows, draws=DRAWS):
    """All but those by family are of images whose generator is named: others may come from one that was trained on.

    `rows`: the tested images with score, called (ai by the fold's own threshold) and conditions {name: score}."""
    label = np.array([r["label"] == "ai" for r in rows])
    score = np.array([float(r["score"]) for r in rows])
    source = np.array([r["source"] for r in rows])
    called = np.array([bool(r["called"]) for r in rows])
    family = by_family(rows, label, score, source)
    named = np.array([folds.is_named(r) for r in rows])
    rows, label, score, source, called = [r for r, n in zip(rows, named) if n], label[named], score[named], source[named], called[named]
    kinds = by_content(rows, label, score, source, draws)
    inside = [k["auroc"] for k in kinds.values() if k["auroc"] is not None]
    out = {
        "content": kinds,
        "mean inside content": round(float(np.mean(inside)), 4) if inside else None,
        "overall": ranked(label, score, source, draws),
        "family": family,
        "size": by_size(rows, label, score, source),
        "ece": round(metrics.calibration_error(label, score), 4),
        "ai": {"precision": round(float(label[called].mean()), 4) if called.any() else None,
               "recall": round(float(called[label].mean()), 4) if label.any() else None, "images": int(called.sum())},
        "unlike": round(float(np.mean([bool(r.get("unlike")) for r in rows])), 4),
        "conditions": {},
    }
    names = sorted({name for r in rows for name in r["conditions"]})
    for name in [n for n in names if n != AS_IT_IS and not n.startswith("swap ")]:
        keep = np.array([name in r["conditions"] for r in rows])
        after = np.array([r["conditions"].get(name, np.nan) for r in rows])[keep]
        clean = metrics.auroc(label[keep], np.array([r["conditions"].get(AS_IT_IS, r["score"]) for r in rows])[keep])
        value = metrics.auroc(label[keep], after)
        out["conditions"][name] = {"images": int(keep.sum()), "auroc": round(value, 4), "of clean": round(value / clean, 4)}
    swaps = [n for n in names if n.startswith("swap ")]
    real = [r for r in rows if r["label"] == "real" and all(n in r["conditions"] for n in swaps)]
    out["codec swap"] = {f"{a[5:]} against {b[5:]}": swapped([r["conditions"][a] for r in real], [r["conditions"][b] for r in real])
                         for i, a in enumerate(swaps) for b in swaps[i + 1:] if real}
    return out


def text_of(made):
    """The figures as Markdown, content first."""
    def line(name, f):
        spread = f"{f['interval'][0]:.3f} to {f['interval'][1]:.3f}" if f.get("interval") else ""
        value = "-" if f["auroc"] is None else f"{f['auroc']:.3f}"
        return f"| {name} | {value} | {spread} | {f['ai']} | {f['real']} | {f['sources']} |"

    head = ["| | AUROC | 95 % over sources | generated | real | sources |", "|---|---|---|---|---|---|"]
    lines = [*head, *(line(f"content {k}", f) for k, f in made["content"].items()), line("overall", made["overall"])]
    lines += [*(line(f"family {k}", f) for k, f in made["family"].items()),
              *(line(f"short side {k}", f) for k, f in made["size"].items()), ""]
    lines += ["| after | AUROC | of clean | images |", "|---|---|---|---|"]
    lines += [f"| {k} | {f['auroc']:.3f} | {f['of clean']:.3f} | {f['images']} |" for k, f in made["conditions"].items()]
    lines += ["", "| the same real images as | AUROC |", "|---|---|"]
    lines += [f"| {k} | {v:.3f} |" for k, v in made["codec swap"].items()]
    ai = made["ai"]
    shown = {k: "-" if v is None else f"{v:.3f}" for k, v in ai.items() if k != "images"}
    lines += ["", f"Mean inside content {made['mean inside content']}. Calibration error {made['ece']:.3f}. Tier `ai`: "
              f"precision {shown['precision']} at recall {shown['recall']}, {ai['images']} images. "
              f"Unlike anything in training: {100 * made['unlike']:.1f} %."]
    return "\n".join(lines) + "\n"

"""Figures of the outer folds of the speech detector: equal error, ranking, calibration; by line of systems, source and channel."""
import numpy as np

from protocol import figures as common, metrics


def weighted_error(label, score, source):
    """The equal error rate if every source counted alike inside its label."""
    return metrics.equal_error(label, score, metrics.source_weights(label, source))


def error_interval(label, score, source, draws=common.DRAWS):
    """The 95 % interval of the equal error rate over draws of sources."""
    rng, values = np.random.default_rng(11), []
    for _ in range(draws):
        pick = common.resampled(label, source, rng)
        values.append(metrics.equal_error(label[pick], score[pick]))
    return [round(float(v), 4) for v in np.quantile(values, [0.025, 0.975])]


def summary(label, score, source):
    return {**common.ranked(label, score, source), "eer": round(metrics.equal_error(label, score), 4),
            "eer_interval": error_interval(label, score, source),
            "eer_sources_alike": round(weighted_error(label, score, source), 4)}


def by_fold(rows, label, score):
    fold = np.array([r["fold"] for r in rows])
    return {str(k + 1): {"auroc": round(metrics.auroc(label[fold == k], score[fold == k]), 4),
                         "eer": round(metrics.equal_error(label[fold == k], score[fold == k]), 4),
                         "ai": int(label[fold == k].sum()), "real": int((~label[fold == k]).sum())}
            for k in sorted(set(fold.tolist()))}


def by_condition(rows, label, score):
    out = {}
    for name in sorted({n for r in rows for n in r["conditions"]}):
        keep = np.array([name in r["conditions"] for r in rows])
        after = np.array([r["conditions"].get(name, np.nan) for r in rows])[keep]
        out[name] = {"clips": int(keep.sum()), "auroc": round(metrics.auroc(label[keep], after), 4),
                     "eer": round(metrics.equal_error(label[keep], after), 4),
                     "of clean": round(metrics.auroc(label[keep], after) / metrics.auroc(label[keep], score[keep]), 4),
                     "ece": round(metrics.calibration_error(label[keep], after), 4)}
    return out


def figures(rows):
    """`rows`: the tested clips with fold, score, called (ai by the fold's own threshold) and conditions {name: score}."""
    label = np.array([r["label"] == "ai" for r in rows])
    score = np.array([float(r["score"]) for r in rows])
    source = np.array([r["source"] for r in rows])
    called = np.array([bool(r["called"]) for r in rows])
    sources = {}
    for name, (a, n) in metrics.by_group(label, score, source).items():
        mine = source == name
        sources[name] = {"label": "ai" if label[mine][0] else "real", "clips": n, "auroc": round(a, 3),
                         "mean score": round(float(score[mine].mean()), 3)}
    return {
        "overall": summary(label, score, source), "fold": by_fold(rows, label, score),
        "family": common.by_family(rows, label, score, source), "source": sources,
        "condition": by_condition(rows, label, score),
        "balanced accuracy": round(metrics.balanced_accuracy(label, score), 4),
        "ece": round(metrics.calibration_error(label, score), 4),
        "bins": [[round(a, 3), round(b, 3), n] for a, b, n in metrics.calibration_bins(label, score)],
        "ai": {"precision": round(float(label[called].mean()), 4) if called.any() else None,
               "recall": round(float(called[label].mean()), 4), "clips": int(called.sum())},
    }


def text_of(made):
    o = made["overall"]
    lines = [f"EER {o['eer']:.3f} ({o['eer_interval'][0]:.3f} to {o['eer_interval'][1]:.3f} over sources), sources alike "
             f"{o['eer_sources_alike']:.3f}; AUROC {o['auroc']:.3f} ({o['interval'][0]:.3f} to {o['interval'][1]:.3f}); "
             f"{o['ai']} generated and {o['real']} recorded clips of {o['sources']} sources.",
             f"Balanced accuracy {made['balanced accuracy']:.3f}, calibration error {made['ece']:.3f}, tier ai {made['ai']}.",
             "", "| fold | EER | AUROC | generated | recorded |", "|---|---|---|---|---|"]
    lines += [f"| {k} | {f['eer']:.3f} | {f['auroc']:.3f} | {f['ai']} | {f['real']} |" for k, f in made["fold"].items()]
    lines += ["", "| after | EER | AUROC | of clean | calibration error | clips |", "|---|---|---|---|---|---|"]
    lines += [f"| {k} | {f['eer']:.3f} | {f['auroc']:.3f} | {f['of clean']:.3f} | {f['ece']:.3f} | {f['clips']} |"
              for k, f in made["condition"].items()]
    lines += ["", "| line of systems | AUROC | clips | sources |", "|---|---|---|---|"]
    lines += [f"| {k} | {f['auroc']:.3f} | {f['ai']} | {f['sources']} |" for k, f in made["family"].items()]
    lines += ["", "| source | label | clips | AUROC | mean score |", "|---|---|---|---|---|"]
    lines += [f"| {k} | {f['label']} | {f['clips']} | {f['auroc']:.2f} | {f['mean score']:.2f} |"
              for k, f in made["source"].items()]
    lines += ["", "| score | share generated | clips |", "|---|---|---|"]
    lines += [f"| {a:.2f} | {b:.2f} | {n} |" for a, b, n in made["bins"]]
    return "\n".join(lines) + "\n"

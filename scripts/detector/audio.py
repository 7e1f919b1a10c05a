"""The speech detector, from clips to weights and figures.

    python3 scripts/detector/audio.py train --data DIR --out models       # weights, JSON, figures by source
    python3 scripts/detector/audio.py evaluate --data DIR --models models # the weights on any folder with index.csv

A kernel machine: a support vector machine on the statistics of audio_features.py, then retold with few centres, so that
the file is small and holds no clip's statistics. What is far from every centre (no speech) is drawn to "unsure".
"""
import argparse
import csv
import hashlib
import json
import os
import warnings

import numpy as np
import onnxruntime
import soundfile
import torch
from sklearn.cluster import KMeans
from sklearn.svm import SVC
from torch import nn

import calibrate
import metrics
from audio_augment import augmented
from audio_features import RATE, WINDOW, Statistics, windows

NAME, VERSION = "detector_audio_v0", "1.0.0"
COPIES, CENTRES, PENALTY, RIDGE, SEED = 2, 512, 2.0, 1e-3, 11
LEAST = 0.16  # a fifth of what sounds most natural was generated: the tier below 0.15 would pretend
STRANGE = 0.3  # of the similarity to the nearest centre that 98 in 100 have
CLIP = 4.0  # deviations: nothing a clip does is stranger than this
# Whole sources, and a system's fakes with its own recordings; nothing of a fold trains what is tested on it.
FOLDS = [
    ["tacotron-gt", "tacotron-synth"],
    ["resemblyzer-ls100", "resemblyzer-lsother", "piper"],
    ["picovoice-intent", "e1tts-gt", "e1tts-fake"],
    ["ditto-gt", "ditto-fake", "espeak"],
    ["emodb", "r9y9-gt", "r9y9-fake", "matcha"],
    ["asterisk-fr", "asterisk-it", "vits-gt", "vits-fake", "glowtts-gt", "glowtts-fake", "hifigan-gt", "hifigan-fake"],
    ["mobilespeech-gt", "mobilespeech-fake", "fs2-gt", "fs2-fake", "flite", "festdiphone"],
]
# A second division, by the corpora voices come from. Nothing was chosen by it, though on the same clips.
BY_CORPUS = [
    ["resemblyzer-ls100", "resemblyzer-lsother", "e1tts-gt", "e1tts-fake", "mobilespeech-gt", "mobilespeech-fake"],
    ["vits-gt", "vits-fake", "glowtts-gt", "glowtts-fake", "hifigan-gt", "hifigan-fake", "fs2-gt", "fs2-fake",
     "matcha"],
    ["tacotron-gt", "tacotron-synth", "emodb"],
    ["ditto-gt", "ditto-fake", "r9y9-gt", "r9y9-fake"],
    ["piper", "asterisk-fr", "asterisk-it", "picovoice-intent", "espeak", "flite", "festdiphone"],
]


class Detector(nn.Module):
    def __init__(self, machine):
        super().__init__()
        self.statistics = Statistics()
        turned = {**machine, "centres": machine["centres"].T.copy(), "lengths": (machine["centres"]**2).sum(1)}
        for name, value in turned.items():  # [235, centres]: turned here, or the exporter stores both ways
            self.register_buffer(name, torch.tensor(value, dtype=torch.float32))

    def forward(self, samples):
        z = ((self.statistics(samples) - self.mean) / self.deviation).clamp(-CLIP, CLIP)
        far = z.pow(2).sum(1, keepdim=True) + self.lengths - 2 * torch.matmul(z, self.centres)
        near = torch.exp(-far / z.shape[1])
        known = (near.amax(1) / self.known).clamp(max=1).pow(4)
        return self.unsure + known * (torch.matmul(near, self.weights) + self.constant - self.unsure)


def clips_of(folder):
    with open(os.path.join(folder, "index.csv"), newline="") as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        x, rate = soundfile.read(os.path.join(folder, row["file"]), dtype="float32")
        if rate != RATE or x.ndim != 1:
            raise SystemExit(f"{row['file']}: expected one channel at {RATE} Hz")
        row["samples"] = x
    return rows, np.array([float(r["label"] == "ai") for r in rows]), np.array([r["source"] for r in rows])


def measured(clips):
    """[clips, 235]; of the first window, which is all of a clip of three seconds."""
    net, out = Statistics().eval(), []
    with torch.no_grad():
        for i in range(0, len(clips), 50):
            out.append(net(torch.from_numpy(np.stack([windows(c)[0] for c in clips[i:i + 50]]))).numpy())
    return np.concatenate(out).astype(np.float64)


def training_statistics(rows):
    """[1 + copies, clips, 235]: as they are, then changed."""
    out = [measured([r["samples"] for r in rows])]
    for copy in range(COPIES):
        seeds = [np.random.default_rng([SEED, copy, i]) for i in range(len(rows))]
        out.append(measured([augmented(r["samples"], rng) for r, rng in zip(rows, seeds)]))
        print(f"copy {copy + 1} of {COPIES} measured", flush=True)
    return np.stack(out)


def kernel(a, b):
    far = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    return np.exp(-np.maximum(far, 0) / a.shape[1])


def learned(statistics, label, source):
    """The parameters of Detector. Large sources count less for each clip, by the root of their size."""
    copies, clips, width = statistics.shape
    x, y = statistics.reshape(-1, width), np.tile(label, copies)
    weight = 1 / np.sqrt(np.array([(source == s).sum() for s in source]))
    for c in (0, 1):
        weight[label == c] *= clips / 2 / weight[label == c].sum()
    mean, deviation = x.mean(0), x.std(0) + 1e-6
    z = np.clip((x - mean) / deviation, -CLIP, CLIP)
    machine = SVC(C=PENALTY, gamma=1 / width).fit(z, y, sample_weight=np.tile(weight, copies) / copies)
    said = machine.decision_function(z)
    centres = KMeans(CENTRES, n_init=1, max_iter=30, random_state=SEED).fit(z).cluster_centers_
    centres = centres.astype(np.float16).astype(np.float64)  # as they are stored
    k, constant = kernel(z, centres), float(machine.intercept_[0])
    weights = np.linalg.solve(k.T @ k + RIDGE * np.eye(CENTRES), k.T @ (said - constant))
    made = {"mean": mean, "deviation": deviation, "centres": centres, "weights": weights, "constant": constant}
    # Speech is nearer to a centre than this; what is farther is drawn to the logit whose score is one half.
    return {**made, "known": STRANGE * float(np.quantile(k.max(1), 0.02))}, machine


def answered(machine, statistics):
    z = np.clip((statistics - machine["mean"]) / machine["deviation"], -CLIP, CLIP)
    return kernel(z, machine["centres"]) @ machine["weights"] + machine["constant"]


def cross_validated(statistics, label, source, folds):
    """(logits of the clips, of their first changed copies), each from a machine that knows no such source."""
    fold = np.array([next(i for i, names in enumerate(folds) if s in names) for s in source])
    plain, changed = np.zeros(len(label)), np.zeros(len(label))
    for i in range(len(folds)):
        rest, mine = fold != i, fold == i
        machine, full = learned(statistics[:, rest], label[rest], source[rest])
        plain[mine], changed[mine] = answered(machine, statistics[0, mine]), answered(machine, statistics[1, mine])
        z = np.clip((statistics[0, mine] - machine["mean"]) / machine["deviation"], -CLIP, CLIP)
        before = metrics.auroc(label[mine], full.decision_function(z))
        print(f"fold {i}: AUROC {metrics.auroc(label[mine], plain[mine]):.3f}, before it was retold {before:.3f} "
              f"with {len(full.support_)} vectors", flush=True)
    return plain, changed


def calibrated(logits, label, source):
    """(temperature, table), never under LEAST and still rising there, so that clips keep their order."""
    t, table = calibrate.fitted(logits, label, source)
    return t, [[x, round(max(y, LEAST + x / 10), 4)] for x, y in table]


def cross_fitted(logits, label, source):
    """Scores, each from a table that has not seen its source."""
    part, out = calibrate.folds(label, source), np.zeros(len(label))
    for k in set(part.tolist()):
        rest, mine = part != k, part == k
        out[mine] = calibrate.applied(logits[mine], *calibrated(logits[rest], label[rest], source[rest]))
    return out


def report(label, pooled, score, source):
    precision = {t: metrics.precision_at(label, score, t) for t in (0.85, 0.55)}
    real = metrics.precision_at(1 - label, 1 - score, 0.85)
    print(f"AUROC {metrics.auroc(label, pooled):.4f}, balanced accuracy {metrics.balanced_accuracy(label, score):.4f}, "
          f"ECE {metrics.calibration_error(label, score):.4f}")
    print("score >= 0.85, >= 0.55, <= 0.15: precision, recall, count", *precision.values(), real)
    unsure = float(((score >= 0.45) & (score < 0.55)).mean())
    print(f"uncertain {unsure:.3f}; scores, share generated, count:",
          [(round(a, 2), round(b, 2), n) for a, b, n in metrics.calibration_bins(label, score)])
    print("| source | label | clips | AUROC | mean score |\n|---|---|---|---|---|")
    for name, (a, n) in metrics.by_group(label, pooled, source).items():
        mine = source == name
        print(f"| {name} | {'ai' if label[mine][0] else 'real'} | {n} | {a:.2f} | {score[mine].mean():.2f} |")


def export_onnx(machine, path):
    from export import OPSET, in_halves

    net = Detector(machine).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (torch.randn(2, WINDOW),), path, dynamo=False, opset_version=OPSET,
                          input_names=["samples"], output_names=["logits"],
                          dynamic_axes={"samples": {0: "windows"}, "logits": {0: "windows"}})
    in_halves(path)


def train(args):
    rows, label, source = clips_of(args.data)
    statistics = training_statistics(rows)
    other, _ = cross_validated(statistics, label, source, BY_CORPUS)
    print(f"by corpus: AUROC {metrics.auroc(label, other):.4f}, "
          f"ECE {metrics.calibration_error(label, cross_fitted(other, label, source)):.4f}")
    logits, changed = cross_validated(statistics, label, source, FOLDS)
    t, table = calibrated(logits, label, source)
    score = cross_fitted(logits, label, source)
    report(label, logits, score, source)
    print(f"changed copies: AUROC {metrics.auroc(label, changed):.4f}, "
          f"ECE {metrics.calibration_error(label, calibrate.applied(changed, t, table)):.4f}")
    machine, _ = learned(statistics, label, source)
    half = np.interp(0.5, [y for _, y in table], [x for x, _ in table])
    machine["unsure"] = float(t * np.log(half / (1 - half)))
    path = os.path.join(args.out, f"{NAME}.onnx")
    export_onnx(machine, path + ".tmp")
    said = onnx_logits(path + ".tmp", rows[::10])
    worst = float(np.abs(np.array([z.mean() for z in said]) - answered(machine, statistics[0, ::10])).max())
    if worst > 0.05:
        raise SystemExit(f"the exported weights differ by {worst:.3f} from the trained ones")
    os.replace(path + ".tmp", path)
    with open(path, "rb") as f:
        body = f.read()
    figures = {"auroc": round(metrics.auroc(label, logits), 4), "clips": len(rows),
               "ece_cross_fitted": round(metrics.calibration_error(label, score), 4)}
    made = {"version": VERSION, "pooling": {"kind": "mean"}, "temperature": t, "isotonic": table, "figures": figures}
    with open(os.path.join(args.out, f"{NAME}.json"), "w") as f:
        f.write(json.dumps(made, indent=2) + "\n")
    print(f"{path}: {len(body)} bytes, sha256 {hashlib.sha256(body).hexdigest()}, differs by at most {worst:.4f}")
    print(json.dumps(made))


def onnx_logits(path, rows):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    return [session.run(None, {"samples": windows(r["samples"])})[0] for r in rows]


def evaluate(args):
    with open(os.path.join(args.models, f"{NAME}.json")) as f:
        made = json.load(f)
    rows, label, source = clips_of(args.data)
    logits = onnx_logits(os.path.join(args.models, f"{NAME}.onnx"), rows)
    pooled = np.array([calibrate.pool(z, made["pooling"]) for z in logits])
    report(label, pooled, calibrate.applied(pooled, made["temperature"], made["isotonic"]), source)


def main():
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="stft with return_complex=False")
    p = argparse.ArgumentParser()
    p.add_argument("step", choices=["train", "evaluate"])
    p.add_argument("--data", required=True)
    p.add_argument("--out", default="models")
    p.add_argument("--models", default="models")
    args = p.parse_args()
    {"train": train, "evaluate": evaluate}[args.step](args)


if __name__ == "__main__":
    main()

"""The speech detector as a file: trained on everything, calibrated with the logits of the outer folds, compared with ONNX Runtime."""
import csv
import hashlib
import json
import os
import warnings

import numpy as np
import onnxruntime
import soundfile
import torch
from torch import nn
from torch.onnx import register_custom_op_symbolic
from torch.onnx.symbolic_helper import parse_args

from audio import machine, measure
from audio.features import RATE, WINDOW, Statistics, windows
from audio.figures import figures as figures_of, summary
from protocol import calibrate, folds, metrics

NAME, VERSION, OPSET = "detector_audio_v0", "2.0.0", 17
LEAST = 0.16  # many clips that sound most natural were generated: the tier below 0.15 would pretend


class Member(nn.Module):
    def __init__(self, made):
        super().__init__()
        self.register_buffer("columns", torch.tensor(made["columns"]))
        for name in sorted({"mean", "deviation", "weights", "centres", "known"} & set(made)):
            value = made[name].T.copy() if name == "centres" else made[name]  # turned here, or the exporter stores both ways
            self.register_buffer(name, torch.tensor(value, dtype=torch.float32))
        self.kind, self.nets = made["kind"], nn.ModuleList(made.get("nets", []))
        if self.kind == "kernel":
            self.register_buffer("lengths", torch.tensor((made["centres"]**2).sum(1), dtype=torch.float32))

    def forward(self, statistics):
        """(logits, how known the clips are: 0 to 1, or None)"""
        z = ((statistics.index_select(1, self.columns) - self.mean) / self.deviation).clamp(-machine.CLIP, machine.CLIP)
        if self.kind == "perceptrons":
            return torch.stack([net(z) for net in self.nets]).mean(0), None
        if self.kind == "linear":
            return torch.matmul(z, self.weights), None
        far = z.pow(2).sum(1, keepdim=True) + self.lengths - 2 * torch.matmul(z, self.centres)
        near = torch.exp(-far.clamp(min=0) / z.shape[1])
        return torch.matmul(near, self.weights), (near.amax(1) / self.known).clamp(max=1).pow(4)


class Detector(nn.Module):
    """The mean of its members. What resembles no centre (no speech) is drawn to the logit whose score is one half."""

    def __init__(self, members, scales, unsure):
        super().__init__()
        self.statistics, self.members = Statistics(), nn.ModuleList(map(Member, members))
        self.scales, self.unsure = scales, float(unsure)

    def forward(self, samples):
        answers = [member(statistics) for statistics in [self.statistics(samples)] for member in self.members]
        logits = torch.stack([a / scale for (a, _), scale in zip(answers, self.scales)]).mean(0)
        known = [k for _, k in answers if k is not None]
        return self.unsure + known[0] * (logits - self.unsure) if known else logits


@parse_args("v", "i", "i", "i", "v", "b", "b", "b")
def stft(g, x, n, hop, length, window, normalized, onesided, complex_output):
    """The operator of ONNX itself; older releases of PyTorch have no translation."""
    def number(value):
        return g.op("Constant", value_t=torch.tensor(value))

    x = g.op("Unsqueeze", x, g.op("Constant", value_t=torch.tensor([2])))
    z = g.op("STFT", x, number(hop), window, number(n), onesided_i=1)
    return g.op("Transpose", z, perm_i=[0, 2, 1, 3])


def export_onnx(net, path):
    from networks.export import in_halves

    register_custom_op_symbolic("aten::stft", stft, OPSET)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (torch.randn(2, WINDOW),), path, opset_version=OPSET, input_names=["samples"],
                          output_names=["logits"], dynamic_axes={"samples": {0: "windows"}, "logits": {0: "windows"}})
    in_halves(path)


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options)


def voted(done):
    """The members that most folds chose."""
    names = [name for each in done for name in each["about"]["members"]]
    often = [name for name in machine.CANDIDATES if names.count(name) * 2 > len(done)]
    return often or [max(machine.CANDIDATES, key=names.count)]


def export(args, version, done, data):
    names = voted(done)
    everything = np.arange(len(data.label))
    members = [machine.learned(machine.CANDIDATES[name], data, everything) for name in names]
    used = [[each["about"]["scales"][n] for each in done if n in each["about"]["scales"]] for n in names]
    tested = [row for each in done for row in each["rows"]]
    logits, y = np.array([r["logit"] for r in tested]), np.array([r["label"] == "ai" for r in tested])
    t, table = calibrate.fitted(logits, y, np.array([r["source"] for r in tested]))
    table = [[at, round(max(share, LEAST + at / 10), 4)] for at, share in table]  # still rising, so that clips keep their order
    half = float(np.interp(0.5, [b for _, b in table], [a for a, _ in table]))
    net = Detector(members, [float(np.mean(u)) for u in used], t * np.log(half / (1 - half))).eval()
    path = os.path.join(args.models, f"{NAME}.onnx")
    export_onnx(net, path + ".tmp")
    worst = compared(net, path + ".tmp", args.pack, lambda z: calibrate.applied(z, t, table))
    os.replace(path + ".tmp", path)
    few = min(y.sum(), (~y).sum())  # as many of each label, or the threshold would lean on the commoner one
    alike = np.concatenate([np.flatnonzero(y == v)[np.linspace(0, (y == v).sum() - 1, few).astype(int)] for v in (True, False)])
    scores = [(float(s), bool(v)) for s, v in zip(calibrate.applied(logits[alike], t, table), y[alike])]
    own = figures_of(tested)
    figures = {"eer": own["overall"]["eer"], "auroc": own["overall"]["auroc"], "clips": len(tested), "ece": own["ece"],
               "data_version": version[:12]}
    made = {"version": VERSION, "pooling": {"kind": "mean"}, "temperature": t, "isotonic": table,
            "tiers": {"ai": folds.ai_threshold(scores)}, "figures": figures}
    with open(os.path.join(args.models, f"{NAME}.json"), "w") as f:
        f.write(json.dumps(made, indent=2) + "\n")
    with open(path, "rb") as f:
        body = f.read()
    print(f"{names}: {len(body)} bytes, sha256 {hashlib.sha256(body).hexdigest()}, scores differ by at most {worst:.5f}")


def compared(net, path, pack, score):
    """The largest difference of a score between PyTorch and ONNX Runtime, over every fiftieth clip."""
    samples, index = measure.opened(pack)
    some = np.stack([windows(samples[i, : index[i]["samples"]] / np.float32(32768))[0] for i in range(0, len(index), 50)])
    with torch.no_grad():
        expected = net(torch.from_numpy(some)).numpy()
    worst = float(np.abs(score(session_of(path).run(None, {"samples": some})[0]) - score(expected)).max())
    if worst > 0.01:
        raise SystemExit(f"the exported weights differ by {worst:.4f} from the trained ones")
    return worst


def evaluate(args):
    with open(os.path.join(args.models, f"{NAME}.json")) as f:
        made = json.load(f)
    session, rows, logits = session_of(os.path.join(args.models, f"{NAME}.onnx")), [], []
    with open(os.path.join(args.data, "index.csv"), newline="") as f:
        for row in csv.DictReader(f):
            x, rate = soundfile.read(os.path.join(args.data, row["file"]), dtype="float32")
            if rate != RATE or x.ndim != 1:
                raise SystemExit(f"{row['file']}: expected one channel at {RATE} Hz")
            rows.append(row)
            logits.append(calibrate.pool(session.run(None, {"samples": windows(x)})[0], made["pooling"]))
    label, source = np.array([r["label"] == "ai" for r in rows]), np.array([r["source"] for r in rows])
    score = calibrate.applied(np.array(logits), made["temperature"], made["isotonic"])
    print(summary(label, score, source), f"calibration error {metrics.calibration_error(label, score):.4f}")

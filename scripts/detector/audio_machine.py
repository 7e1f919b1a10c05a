"""What can be chosen for the speech detector, and how each is fitted: kernels and a linear answer on statistics, a network on spectra.

The kernel has few centres, so that no clip's statistics are kept. Clips of large sources count less, by the root of their size.
"""
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.cluster import MiniBatchKMeans

import audio_network
from audio_features import WINDOW, Statistics

CLIP = 4.0  # deviations: nothing a clip does is stranger than this
CENTRES, SEED = 512, 11
STRANGE = 0.3  # of the similarity to the nearest centre that 98 in 100 have
OLD = ("movement", "harmonics", "stripes")
ALL = (*OLD, "quefrencies", "phases", "tones")
CANDIDATES = {
    "kernel on the older statistics": {"kind": "kernel", "groups": OLD, "ridge": 1e-3},
    "kernel": {"kind": "kernel", "groups": ALL, "ridge": 1e-3},
    "bolder kernel": {"kind": "kernel", "groups": ALL, "ridge": 1e-4},
    "linear": {"kind": "linear", "groups": ALL, "ridge": 0.5},
    "network": {"kind": "network"},
}


@dataclass
class Data:
    statistics: np.ndarray  # [copies, clips, statistics]; the first copy is the clip as it is
    spectra: list  # of each copy: bytes [clips, bands, frames]
    label: np.ndarray  # True: generated
    source: np.ndarray

    def at(self, copy, clips):
        return self.statistics[copy][clips], self.spectra[copy][clips]


def columns(groups):
    """Which columns of the statistics belong to the groups."""
    with torch.no_grad():
        sizes = {name: part.shape[1] for name, part in Statistics().groups(torch.randn(1, WINDOW)).items()}
    ends = np.cumsum(list(sizes.values()))
    return np.concatenate([np.arange(end - n, end) for (name, n), end in zip(sizes.items(), ends) if name in groups])


def weights_of(label, source):
    """The labels count alike; the mean is one."""
    _, inverse, count = np.unique(source, return_inverse=True, return_counts=True)
    weight = 1 / np.sqrt(count[inverse])
    for y in (False, True):
        weight[label == y] *= len(label) / 2 / weight[label == y].sum()
    return weight


def kernel(a, b):
    far = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    return np.exp(-np.maximum(far, 0) / a.shape[1])


def placed(made, statistics):
    z = (statistics[:, made["columns"]] - made["mean"]) / made["deviation"]
    return np.clip(z, -CLIP, CLIP)


def solved(x, target, weight, penalty):
    """Weighted least squares; `penalty` is a matrix."""
    heavy = x * (weight / len(x))[:, None]
    return np.linalg.solve(heavy.T @ x + penalty, heavy.T @ target)


def learned(candidate, data, clips):
    """A machine that has seen `clips` of the data, in all copies."""
    label, source = data.label[clips], data.source[clips]
    weight = weights_of(label, source)
    if candidate["kind"] == "network":
        return {"kind": "network", "net": audio_network.trained(data.spectra, clips, label, weight)}
    use, copies = columns(candidate["groups"]), len(data.statistics)
    x = data.statistics[:, clips][:, :, use].reshape(-1, len(use)).astype(np.float64)
    made = {"kind": candidate["kind"], "columns": use, "mean": x.mean(0), "deviation": x.std(0) + 1e-6}
    z = np.clip((x - made["mean"]) / made["deviation"], -CLIP, CLIP)
    target, weight = np.tile(np.where(label, 1.0, -1.0), copies), np.tile(weight, copies)
    if candidate["kind"] == "linear":
        return {**made, "weights": solved(z, target, weight, candidate["ridge"] * np.eye(len(use)))}
    centres = MiniBatchKMeans(CENTRES, n_init=1, max_iter=20, batch_size=4096, random_state=SEED).fit(z).cluster_centers_
    centres = centres.astype(np.float16).astype(np.float64)  # as they are stored
    near = kernel(z, centres)
    penalty = candidate["ridge"] * (kernel(centres, centres) + 1e-3 * np.eye(CENTRES))
    return {**made, "centres": centres, "weights": solved(near, target, weight, penalty),
            "known": STRANGE * float(np.quantile(near.max(1), 0.02))}


def answered(made, statistics, spectra):
    if made["kind"] == "network":
        return audio_network.answered(made["net"], spectra)
    z = placed(made, statistics.astype(np.float64))
    return (z if made["kind"] == "linear" else kernel(z, made["centres"])) @ made["weights"]

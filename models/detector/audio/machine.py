"""What can be chosen for the speech detector, and how each is fitted: kernels, a linear answer and perceptrons on statistics.

A kernel has few centres, so that no clip's statistics are kept. Clips of large sources count less, by the root of their size.
"""
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.cluster import MiniBatchKMeans
from torch import nn

from audio.features import WINDOW, Statistics

CLIP = 4.0  # deviations: nothing a clip does is stranger than this
SEED = 11
STRANGE = 0.3  # of the similarity to the nearest centre that 98 in 100 have
OLD = ("movement", "harmonics", "stripes")
ALL = (*OLD, "quefrencies", "phases", "tones")
CANDIDATES = {
    "kernel on the older statistics": {"kind": "kernel", "groups": OLD, "ridge": 1e-3, "centres": 512},
    "kernel": {"kind": "kernel", "groups": ALL, "ridge": 1e-3, "centres": 512},
    "bolder kernel": {"kind": "kernel", "groups": ALL, "ridge": 1e-4, "centres": 1024},
    "linear": {"kind": "linear", "groups": ALL, "ridge": 0.5},
    "perceptrons": {"kind": "perceptrons", "groups": ALL},
}
SEVERAL, HIDDEN, EPOCHS, BATCH, PACE, JITTER = 2, 128, 12, 128, 2e-3, 0.3


@dataclass
class Data:
    statistics: np.ndarray  # [copies, clips, statistics]; the first copy is the clip as it is
    label: np.ndarray  # True: generated
    source: np.ndarray


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
    use, copies = columns(candidate["groups"]), len(data.statistics)
    x = data.statistics[:, clips][:, :, use].reshape(-1, len(use)).astype(np.float64)
    made = {"kind": candidate["kind"], "columns": use, "mean": x.mean(0), "deviation": x.std(0) + 1e-6}
    z = np.clip((x - made["mean"]) / made["deviation"], -CLIP, CLIP)
    target, weight = np.tile(np.where(label, 1.0, -1.0), copies), np.tile(weight, copies)
    if candidate["kind"] == "linear":
        return {**made, "weights": solved(z, target, weight, candidate["ridge"] * np.eye(len(use)))}
    if candidate["kind"] == "perceptrons":
        return {**made, "nets": [perceptron(z, target > 0, weight, seed) for seed in range(SEVERAL)]}
    centres = MiniBatchKMeans(candidate["centres"], n_init=1, max_iter=20, batch_size=4096, random_state=SEED).fit(z).cluster_centers_
    centres = centres.astype(np.float16).astype(np.float64)  # as they are stored
    near = kernel(z, centres)
    penalty = candidate["ridge"] * (kernel(centres, centres) + 1e-3 * np.eye(len(centres)))
    return {**made, "centres": centres, "weights": solved(near, target, weight, penalty),
            "known": STRANGE * float(np.quantile(near.max(1), 0.02))}


def perceptron(z, label, weight, seed):
    """Learns from mixtures of two clips with some noise, so that it draws no sharp border around a source."""
    torch.manual_seed(seed)
    x, y, w = (torch.tensor(v, dtype=torch.float32) for v in (z, label, weight))
    net = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.Tanh(), nn.Dropout(0.3), nn.Linear(HIDDEN, HIDDEN // 2), nn.Tanh(),
                        nn.Dropout(0.3), nn.Linear(HIDDEN // 2, 1), nn.Flatten(0))
    steps = EPOCHS * len(x) // BATCH
    optimizer = torch.optim.AdamW(net.parameters(), PACE, weight_decay=0.05)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimizer, PACE, steps + 1)
    mixing = torch.distributions.Beta(0.4, 0.4)
    for _ in range(steps):
        one, other = torch.randint(0, len(x), (2, BATCH))
        share = mixing.sample((BATCH,))

        def mixed(v, share):
            return v[one] * share + v[other] * (1 - share)

        seen = mixed(x, share.unsqueeze(1)) + JITTER * torch.randn(BATCH, x.shape[1])
        loss = nn.functional.binary_cross_entropy_with_logits(net(seen), mixed(y, share), mixed(w, share))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        plan.step()
    return net.eval()


def answered(made, statistics):
    z = placed(made, statistics.astype(np.float64))
    if made["kind"] == "perceptrons":
        with torch.no_grad():
            return np.mean([net(torch.from_numpy(z).float()).numpy() for net in made["nets"]], 0).astype(np.float64)
    return (z if made["kind"] == "linear" else kernel(z, made["centres"])) @ made["weights"]

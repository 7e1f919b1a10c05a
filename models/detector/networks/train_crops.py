"""Trains the networks for crops (model.py, whole.py): views, loss, rate, and the running mean of the weights that is kept.

Every view is a single crop of a region. Some crops are seen after two encodings, which should not matter. All networks
learn from the same views.
"""
import math

import torch
import torch.nn.functional as F

from images.augment import MARGIN, bands, encoded, finished, recipe, resampled
from images.regions import drawn
from networks import model, whole

NETWORKS = {"half": model.HalfWide, "begun": whole.HalfBegun, "wide": model.Wide}
SMOOTHING = 0.03


class Mean:
    """Running mean of weights and buffers over the last thousand steps, or over a tenth of all while they are few."""

    STEPS = 1000
    EVERY = 4  # steps between two updates

    def __init__(self, net):
        self.step = 0
        now = net.state_dict()  # the tensors themselves, which change in place
        self.state = {k: v.detach().clone() for k, v in now.items()}
        names = [k for k, v in now.items() if v.is_floating_point()]
        self.means, self.values = [self.state[k] for k in names], [now[k] for k in names]

    @torch.no_grad()
    def update(self):
        self.step += 1
        if self.step % self.EVERY == 0:
            share = min(1, self.EVERY / max(1, min(self.STEPS, self.step / 10)))
            for mean, value in zip(self.means, self.values):
                mean.lerp_(value, share)


def optimiser_of(net, args):
    decayed = [p for p in net.parameters() if p.ndim > 1]
    plain = [p for p in net.parameters() if p.ndim <= 1]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
                             lr=args.rate, **({"fused": True} if args.device == "cuda" else {}))


def rate_at(share, args, step):
    """Warmup by steps, cosine by the clock."""
    return args.rate * min(1, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))


class Views:
    """A batch: which region each view is of (V,), views (V, size, size, 3), and where the first and second of twins are."""

    def __init__(self, regions, weights, args):
        self.regions, self.weights, self.args = regions, weights, args

    @torch.no_grad()
    def __call__(self):
        args, wide, parts = self.args, self.args.size + MARGIN, []
        for count, low, high in bands(args.batch, args.lowest_scale):
            draw = recipe(count, args.strength, (low, high), args.device)
            which, windows, draw = drawn(self.regions, self.weights, draw, wide, math.ceil(wide / low))
            parts.append((which, resampled(windows, draw, wide, low == high), draw))
        which, pixels = (torch.cat([p[i] for p in parts]) for i in (0, 1))
        pixels = finished(pixels, {k: torch.cat([p[2][k] for p in parts]) for k in parts[0][2]})
        first = torch.randperm(args.batch, device=args.device)
        order = torch.cat([first, first[: args.twins]])
        mixed = torch.randperm(len(order), device=args.device)  # how a view is encoded goes by its place
        place = torch.argsort(mixed)
        views = encoded(pixels[order[mixed]], args.size)
        return which[order[mixed]], views, place[: args.twins], place[args.batch :]


def loss_of(run, batch, regions, args):
    """Binary cross-entropy of the crops, and how far a crop's answer hangs on its encoding."""
    which, views, one, other = batch
    with torch.autocast(args.device, torch.bfloat16, enabled=args.device == "cuda"):
        logits = run(views).float()
    target = regions.label[which] * (1 - 2 * SMOOTHING) + SMOOTHING
    apart = (logits[one] - logits[other]).square().mean()
    return F.binary_cross_entropy_with_logits(logits, target) + args.steady * apart


class Network:
    """A network, its optimiser and the running mean of its weights."""

    def __init__(self, name, args):
        torch.manual_seed(args.seed)
        self.name, self.args, self.average = name, args, 0.0
        self.net = NETWORKS[name]().to(args.device, memory_format=torch.channels_last)
        self.share = args.rates.get(name, 1.0)  # of the rate of networks that begin at random
        if hasattr(self.net, "begin"):
            self.net.begin(torch.load(args.begin, map_location=args.device))
        self.run = self.net if args.no_compile or args.device != "cuda" else torch.compile(self.net)
        self.optimiser = optimiser_of(self.net, args)
        self.mean = Mean(self.net)

    def learn(self, batch, regions, rate, step):
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.net.train()
        loss = loss_of(self.run, batch, regions, self.args)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 2.0)
        self.optimiser.step()
        self.mean.update()
        if step % 50 == 0:
            self.average = loss.item() if step == 0 else 0.8 * self.average + 0.2 * loss.item()

    def kept(self):
        """The network with the running mean of its weights."""
        net = NETWORKS[self.name]().to(self.args.device)
        net.load_state_dict(self.mean.state)
        return net

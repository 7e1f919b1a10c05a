"""A small network on the log spectrum: 62 Hz and 16 ms fine, each band less its mean over time.

Taking the mean away removes what a microphone or a channel adds to every frame alike. Time is convolved, frequency is not.
"""
import numpy as np
import torch
from torch import nn

from audio_features import FIRST_BIN, FLOOR, LAST_BIN, LONG, LONG_HOP

BINS = 4  # of the long window, in a band
BANDS = (LAST_BIN - FIRST_BIN) // BINS
DEEPEST, STEP = -9.5, 20 / 255  # of the natural logarithm of power: what a byte of a stored spectrum means
WIDTH, EPOCHS, BATCH, RATE_OF_LEARNING, SCALE = 64, 8, 64, 3e-3, 0.25


class Spectrum(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(LONG))

    def levels(self, samples):
        """[N, 48000] → [N, bands, frames]"""
        x = samples - samples.mean(-1, keepdim=True)
        x = x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-6)
        z = torch.stft(x, LONG, LONG_HOP, LONG, self.window, center=False, return_complex=False).pow(2).sum(-1)
        z = torch.log(z[:, FIRST_BIN:FIRST_BIN + BINS * BANDS] + FLOOR)
        return z.reshape(z.shape[0], BANDS, BINS, -1).mean(2)

    def forward(self, samples):
        return ((self.levels(samples) - DEEPEST) / STEP).clamp(0, 255).to(torch.uint8)


class Steps(nn.Module):
    """A convolution over time, as one product of matrices: twice as fast to train without a GPU."""

    def __init__(self, before, after, size, stride):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(before, after, size, stride), nn.BatchNorm1d(after)

    def forward(self, x):
        if torch.onnx.is_in_onnx_export():
            return torch.relu(self.norm(self.conv(x)))
        size, stride = self.conv.kernel_size[0], self.conv.stride[0]
        cut = x.unfold(2, size, stride).permute(0, 2, 1, 3).flatten(2)
        return torch.relu(self.norm((cut @ self.conv.weight.flatten(1).t() + self.conv.bias).transpose(1, 2)))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = nn.Sequential(Steps(BANDS, WIDTH, 5, 2), Steps(WIDTH, WIDTH, 3, 1), Steps(WIDTH, WIDTH, 3, 2))
        self.drop, self.last = nn.Dropout(0.3), nn.Linear(2 * WIDTH, 1)

    def forward(self, levels):
        """[N, bands, frames] → [N]"""
        h = self.steps((levels - levels.mean(-1, keepdim=True)) * SCALE)
        mean = h.mean(-1)
        spread = ((h - mean.unsqueeze(-1)).pow(2).mean(-1) + 1e-5).sqrt()
        return self.last(self.drop(torch.cat([mean, spread], 1))).squeeze(1)


def masked(x, rng):
    """Some bands and some frames replaced by the mean, so that nothing leans on few of them."""
    width, long = rng.integers(0, 20), rng.integers(0, 30)
    f, t = rng.integers(0, BANDS - width), rng.integers(0, x.shape[2] - long)
    mean = x.mean(-1, keepdim=True)
    x[:, f:f + width] = mean[:, f:f + width]
    x[:, :, t:t + long] = mean
    return x


def levels_of(spectra):
    return torch.from_numpy(np.asarray(spectra)).float() * STEP + DEEPEST


def trained(spectra, at, label, weight, seed=11):
    """`spectra`: for each copy bytes of all clips; `at`: the clips to learn from, with their labels and weights."""
    torch.manual_seed(seed)
    rng, net = np.random.default_rng(seed), Network()
    steps = EPOCHS * len(at) // BATCH
    optimizer = torch.optim.AdamW(net.parameters(), RATE_OF_LEARNING, weight_decay=0.02)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE_OF_LEARNING, steps + 1)
    y, w = torch.tensor(label, dtype=torch.float32), torch.tensor(weight, dtype=torch.float32)
    for _ in range(steps):
        pick = rng.integers(0, len(at), BATCH)
        x = masked(levels_of(spectra[rng.integers(0, len(spectra))][at[pick]]), rng)
        loss = nn.functional.binary_cross_entropy_with_logits(net(x), y[pick] * 0.9 + 0.05, w[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        plan.step()
    return net.eval()


def answered(net, spectra):
    with torch.no_grad():
        return np.concatenate([net(levels_of(spectra[i:i + 256])).numpy() for i in range(0, len(spectra), 256)]).astype(np.float64)

"""What the speech detector measures: 235 statistics of three seconds at 16 kHz, as a module that ONNX can hold.

How much cepstra vary in time and how jerkily (synthesis is smoother than a mouth), how strong and how alike in several
zones of frequency the harmonics are, and a coarse mean spectrum. Nothing above 6.6 kHz and no loudness is looked at.
"""
import numpy as np
import torch
from torch import nn

RATE, WINDOW, MAX_WINDOWS = 16_000, 48_000, 8
LOWEST, HIGHEST = 80, 6600  # Hz
BANDS, CEPSTRA = 40, 30
FLOOR = 1e-4  # of power, at a mean square of one: hides what lies under the noise of a room
SHORT, SHORT_HOP, LONG, LONG_HOP = 512, 160, 1024, 256
FIRST_BIN, LAST_BIN = 5, 422  # of the long window: 78 Hz to 6.6 kHz
ZONES, ZONE = (0, 70, 140, 210, 280), 128  # bins
PERIODS = np.arange(4, 34)  # cycles in a zone: harmonics 60 to 500 Hz apart
STRIPES, STRIPE = 7, 59  # bins


def filter_bank(mel):
    """[bins, bands], triangles whose weights sum to one."""
    scale = (lambda f: 1127 * np.log1p(f / 700)) if mel else (lambda f: np.asarray(f, dtype=np.float64))
    at = scale(np.arange(SHORT // 2 + 1) * RATE / SHORT)[:, None]
    edge = np.linspace(scale(LOWEST), scale(HIGHEST), BANDS + 2)
    left, middle, right = edge[:-2], edge[1:-1], edge[2:]
    weight = np.maximum(0, np.minimum((at - left) / (middle - left), (right - at) / (right - middle)))
    return torch.tensor(weight / (weight.sum(0) + 1e-9), dtype=torch.float32)


def cosines():
    """[bands, cepstra]"""
    i = np.arange(BANDS)[:, None] + 0.5
    return torch.tensor(np.cos(np.pi * i * np.arange(CEPSTRA) / BANDS) * np.sqrt(2 / BANDS), dtype=torch.float32)


def deviation(z):
    return ((z - z.mean(-1, keepdim=True)).pow(2).mean(-1) + 1e-8).sqrt()


def weighted(z, weight):
    """(mean, deviation) over time; the weights sum to one."""
    mean = (z * weight).sum(-1)
    return mean, (((z - mean.unsqueeze(-1)).pow(2) * weight).sum(-1) + 1e-8).sqrt()


def loud(energy):
    """Weights [N, 1, frames] that lean to the louder frames."""
    weight = torch.sigmoid((energy - energy.mean(-1, keepdim=True)) * 2)
    return weight / weight.sum(-1, keepdim=True)


class Statistics(nn.Module):
    def __init__(self):
        super().__init__()
        cycles = 2 * np.pi * np.arange(ZONE)[:, None] * PERIODS / ZONE
        hann = np.hanning(ZONE)[:, None] / ZONE
        for name, value in {
            "short": torch.hann_window(SHORT), "long": torch.hann_window(LONG), "linear": filter_bank(False),
            "mel": filter_bank(True), "cosines": cosines(),
            "real": torch.tensor(np.cos(cycles) * hann, dtype=torch.float32),
            "imaginary": torch.tensor(np.sin(cycles) * hann, dtype=torch.float32),
        }.items():
            self.register_buffer(name, value)

    def power(self, x, window, hop):
        n = window.shape[0]
        return torch.stft(x, n, hop, n, window, center=False, return_complex=False).pow(2).sum(-1)

    def cepstra(self, power, bank):
        bands = torch.log(torch.matmul(power.transpose(1, 2), bank) + FLOOR)  # [N, frames, bands]
        return bands.mean(-1).unsqueeze(1), torch.matmul(bands, self.cosines).transpose(1, 2)

    def movement(self, power):
        _, c = self.cepstra(power, self.linear)
        step = deviation(c[..., 2:] - c[..., :-2]).log()
        jerk = deviation(c[..., 2:] - 2 * c[..., 1:-1] + c[..., :-2]).log()
        energy, m = self.cepstra(power, self.mel)
        return [deviation(c).log(), step, jerk - step, c.mean(-1)[:, 1:], deviation(m).log(),
                weighted(m, loud(energy))[1].log()]

    def harmonics(self, spectrum, weight):
        peaks, shapes = [], []
        for start in ZONES:
            zone = spectrum[:, start:start + ZONE].transpose(1, 2)
            zone = zone - zone.mean(-1, keepdim=True)
            c = (torch.matmul(zone, self.real).pow(2) + torch.matmul(zone, self.imaginary).pow(2) + 1e-6).sqrt()
            peaks.append(c.amax(-1) / c.mean(-1))
            centred = c - c.mean(-1, keepdim=True)
            shapes.append(centred / (deviation(c).unsqueeze(-1) + 1e-4))
        peak = torch.stack(peaks, 1)
        mean, spread = weighted(peak, weight)
        alike = torch.stack([(shapes[i] * shapes[j]).mean(-1) for i in range(5) for j in range(i + 2, 5)], 1)
        alike_mean, alike_spread = weighted(alike, weight)
        return [mean, spread.log(), peak.topk(40, -1)[0].mean(-1), peak.topk(100, -1)[0].mean(-1), peak.mean(-1),
                deviation(peak).log(), alike_mean, alike_spread.log()]

    def forward(self, samples):
        """[N, 48000] → [N, 235]"""
        x = samples - samples.mean(-1, keepdim=True)
        x = x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-6)
        spectrum = torch.log(self.power(x, self.long, LONG_HOP)[:, FIRST_BIN:LAST_BIN] + FLOOR)
        weight = loud(spectrum.mean(1, keepdim=True))
        stripes = torch.stack([spectrum[:, i * STRIPE:(i + 1) * STRIPE].mean(1) for i in range(STRIPES)], 1)
        level, spread = weighted(stripes, weight)
        return torch.cat([*self.movement(self.power(x, self.short, SHORT_HOP)), *self.harmonics(spectrum, weight),
                          level - level.mean(1, keepdim=True), spread.log()], 1)


def windows(samples):
    """[n, 48000]; the twin of src/workers/detector/audio/windows.ts."""
    length = len(samples)
    if length < WINDOW:
        return np.tile(samples, -(-WINDOW // length))[None, :WINDOW].astype(np.float32)
    count = min(MAX_WINDOWS, -(-length // WINDOW))
    starts = [0] if count == 1 else [i * (length - WINDOW) // (count - 1) for i in range(count)]
    return np.stack([samples[s:s + WINDOW] for s in starts]).astype(np.float32)

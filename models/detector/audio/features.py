"""What the speech detector measures: statistics of three seconds at 16 kHz, as a module that ONNX can hold.

How much cepstra vary in time and how jerkily (synthesis is smoother than a mouth), how strong and how alike in several
zones of frequency the harmonics are, a coarse mean spectrum, what is finer than an envelope, how far phases run together, and
how periodic four bands are. Nothing above 6.6 kHz and no loudness is looked at.
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
SHORT_FIRST, SHORT_STRIPE = 3, 29  # bins of the short window: seven stripes up to 6.5 kHz
LAGS = np.arange(32, 258)  # samples: voices of 62 to 500 Hz
TONES = ((5, 64), (64, 160), (160, 288), (288, 422))  # bins of the long window: to 1, 2.5, 4.5 and 6.6 kHz
FINE, FINEST = 208, np.arange(24, 200)  # bands of 31 Hz, and the cosines over them that are no envelope


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


def together(first, second):
    """How far the products of two spectra (real, imaginary) point one way in each stripe: [N, stripes, frames]."""
    real = first[0] * second[0] + first[1] * second[1]
    imaginary = first[1] * second[0] - first[0] * second[1]
    size = (real.pow(2) + imaginary.pow(2) + 1e-9).sqrt()
    return real, imaginary, size


def around(z):
    """The mean over five neighbouring bins of [N, bins, frames]."""
    z = nn.functional.pad(z, (0, 0, 2, 2))
    bins = z.shape[1] - 4
    return sum(z[:, i:i + bins] for i in range(5)) / 5


def in_stripes(z, width):
    """[N, bins, frames] → [N, stripes, width, frames]"""
    return z.reshape(z.shape[0], STRIPES, width, -1)


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
            "lags": torch.tensor(np.cos(2 * np.pi * np.arange(FIRST_BIN, LAST_BIN)[:, None] * LAGS / LONG), dtype=torch.float32),
            "fine": torch.tensor(np.cos(np.pi * (np.arange(FINE)[:, None] + 0.5) * FINEST / FINE) * np.sqrt(2 / FINE),
                                 dtype=torch.float32),
            "eights": torch.tensor(np.kron(np.eye(22), np.full((8, 1), 1 / 8)), dtype=torch.float32),
            "turns": torch.tensor(np.stack([f(2 * np.pi * SHORT_HOP * self.short_bins() / SHORT) for f in (np.cos, np.sin)]),
                                  dtype=torch.float32).unsqueeze(-1),
        }.items():
            self.register_buffer(name, value)

    @staticmethod
    def short_bins():
        return np.arange(SHORT_FIRST, SHORT_FIRST + STRIPES * SHORT_STRIPE)

    def spectrum(self, x, window, hop):
        """[N, bins, frames, 2]"""
        n = window.shape[0]
        return torch.stft(x, n, hop, n, window, center=False, return_complex=False)

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

    def quefrencies(self, spectrum):
        """What is finer along frequency than an envelope, by fineness: how strong, how steady, how it jumps, how peaked."""
        bands = spectrum[:, : 2 * FINE].reshape(spectrum.shape[0], FINE, 2, -1).mean(2)
        q = torch.matmul(bands.transpose(1, 2), self.fine)  # [N, frames, 8 * 22]
        square = q.pow(2)
        strength = torch.matmul(square, self.eights)
        energy = torch.log(strength + 1e-2)
        jump = torch.log(torch.matmul((q[:, 1:] - q[:, :-1]).pow(2), self.eights) + 1e-2)
        peaked = torch.matmul(square.pow(2).mean(1), self.eights) / (strength.mean(1).pow(2) + 1e-6)
        return [energy.mean(1), deviation(energy.transpose(1, 2)), jump.mean(1), torch.log(peaked + 1e-3)]

    def phases(self, z, power):
        """z [N, bins, frames, 2]: from frame to frame (steady tones) and from bin to bin (sharp pulses) in each stripe."""
        bins = slice(SHORT_FIRST, SHORT_FIRST + STRIPES * SHORT_STRIPE)
        weight = loud(torch.log(power[:, bins] + FLOOR).mean(1, keepdim=True))
        here = (z[:, bins, :, 0], z[:, bins, :, 1])
        above = (z[:, SHORT_FIRST + 1:SHORT_FIRST + 1 + STRIPES * SHORT_STRIPE, :, 0],
                 z[:, SHORT_FIRST + 1:SHORT_FIRST + 1 + STRIPES * SHORT_STRIPE, :, 1])
        later, before = tuple(h[..., 1:] for h in here), tuple(h[..., :-1] for h in here)
        real, imaginary, size = together(later, before)
        real, imaginary = (real * self.turns[0] + imaginary * self.turns[1], imaginary * self.turns[0] - real * self.turns[1])
        near = [around(v) for v in (real, imaginary, size)]
        steady = (near[0].pow(2) + near[1].pow(2) + 1e-9).sqrt() / (near[2] + 1e-4)
        real, imaginary, size = (in_stripes(v, SHORT_STRIPE).mean(2) for v in together(above, here))
        sharp = (real.pow(2) + imaginary.pow(2) + 1e-9).sqrt() / (size + 1e-4)
        out = []
        for value, w in ((in_stripes(steady, SHORT_STRIPE).mean(2), weight[..., 1:]), (sharp, weight)):
            mean, spread = weighted(value, w / w.sum(-1, keepdim=True))
            out += [mean, spread.log()]
        return out

    def tones(self, power, weight):
        """The strongest period of four bands: how strong, how it varies, how alike the bands' periods are."""
        shapes, peaks = [], []
        for first, last in TONES:
            at = slice(first - FIRST_BIN, last - FIRST_BIN)
            band = power[:, at].transpose(1, 2)
            shape = torch.matmul(band, self.lags[at]) / (band.sum(-1, keepdim=True) + 1e-3)
            shapes.append(shape)
            peaks.append(shape.amax(-1))
        peak = torch.stack(peaks, 1)
        mean, spread = weighted(peak, weight)
        both = torch.stack([(shapes[0] * s).sum(-1) / ((shapes[0].pow(2).sum(-1) * s.pow(2).sum(-1) + 1e-6).sqrt())
                            for s in shapes[1:]], 1)
        moved = torch.stack([(s[:, 1:] * s[:, :-1]).sum(-1) / ((s[:, 1:].pow(2).sum(-1) * s[:, :-1].pow(2).sum(-1) + 1e-6).sqrt())
                             for s in shapes], 1)
        w = weight[..., 1:] / weight[..., 1:].sum(-1, keepdim=True)
        return [mean, spread.log(), *weighted(both, weight), *weighted(moved, w)]

    def groups(self, samples):
        """{name: [N, statistics]}"""
        x = samples - samples.mean(-1, keepdim=True)
        x = x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-6)
        power = self.spectrum(x, self.long, LONG_HOP).pow(2).sum(-1)[:, FIRST_BIN:LAST_BIN]
        spectrum = torch.log(power + FLOOR)
        weight = loud(spectrum.mean(1, keepdim=True))
        stripes = torch.stack([spectrum[:, i * STRIPE:(i + 1) * STRIPE].mean(1) for i in range(STRIPES)], 1)
        level, spread = weighted(stripes, weight)
        z = self.spectrum(x, self.short, SHORT_HOP)
        short = z.pow(2).sum(-1)
        made = {"movement": self.movement(short), "harmonics": self.harmonics(spectrum, weight),
                "stripes": [level - level.mean(1, keepdim=True), spread.log()], "quefrencies": self.quefrencies(spectrum),
                "phases": self.phases(z, short), "tones": self.tones(power, weight)}
        return {name: torch.cat(parts, 1) for name, parts in made.items()}

    def forward(self, samples):
        """[N, 48000] → [N, statistics]"""
        return torch.cat(list(self.groups(samples).values()), 1)


def windows(samples):
    """[n, 48000]; the twin of src/workers/detector/audio/windows.ts."""
    length = len(samples)
    if length < WINDOW:
        return np.tile(samples, -(-WINDOW // length))[None, :WINDOW].astype(np.float32)
    count = min(MAX_WINDOWS, -(-length // WINDOW))
    starts = [0] if count == 1 else [i * (length - WINDOW) // (count - 1) for i in range(count)]
    return np.stack([samples[s:s + WINDOW] for s in starts]).astype(np.float32)

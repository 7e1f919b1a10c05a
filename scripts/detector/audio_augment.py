"""Training copies of a clip: cut, faster or slower, another room and microphone, noise, a codec. Blind to the label."""
import io

import numpy as np
import soundfile
from scipy import signal

from audio_features import RATE

CODECS = [("MP3", "MPEG_LAYER_III"), ("OGG", "OPUS"), ("OGG", "VORBIS")]


def through_codec(x, rng):
    kind, subtype = CODECS[rng.integers(len(CODECS))]
    out = io.BytesIO()
    soundfile.write(out, x, RATE, format=kind, subtype=subtype, compression_level=rng.uniform(0.3, 0.95))
    out.seek(0)
    return soundfile.read(out, dtype="float32")[0]


def microphone(x, rng):
    gain = 10 ** (np.cumsum(rng.normal(0, 2, 9)) / 20)  # a wandering response, 2 dB a kilohertz
    return signal.oaconvolve(x, signal.firwin2(129, np.linspace(0, 1, 9), gain / gain.mean()), "same")


def room(x, rng):
    n = int(rng.uniform(0.02, 0.12) * RATE)
    echo = rng.normal(0, 1, n) * np.exp(-4 * np.arange(n) / n)
    echo *= rng.uniform(0.05, 0.35) / np.sqrt((echo**2).sum())
    echo[0] = 1
    return signal.oaconvolve(x, echo)[: len(x)]


def noise(x, rng):
    n = rng.normal(0, 1, len(x))
    if rng.random() < 0.5:
        n = signal.lfilter([1], [1, -0.95], n)
    return x + n * np.sqrt((x**2).mean() / (n**2).mean()) * 10 ** (-rng.uniform(22, 50) / 20)


def augmented(x, rng):
    x = x / (np.sqrt((x**2).mean()) + 1e-6) * 0.05
    keep = max(RATE, int(len(x) * rng.uniform(0.6, 1)))
    start = rng.integers(0, max(1, len(x) - keep + 1))
    x = x[start:start + keep]
    if rng.random() < 0.5:
        x = np.interp(np.arange(0, len(x) - 1, rng.uniform(0.93, 1.07)), np.arange(len(x)), x)
    for change, chance in ((microphone, 0.7), (room, 0.3), (noise, 0.6)):
        if rng.random() < chance:
            x = change(x, rng)
    x = np.clip(x, -1, 1).astype(np.float32)
    return through_codec(x, rng) if rng.random() < 0.5 else x

"""What happens to a clip on its way: codecs, a telephone, rooms, other microphones, noise, a recording of a loudspeaker.

Training copies draw from all of it, and the tested conditions are fixed. Both are blind to the label.
"""
import io

import numpy as np
import soundfile
from scipy import signal

from audio.features import RATE

FORMATS = {"mp3": ("MP3", "MPEG_LAYER_III"), "opus": ("OGG", "OPUS"), "vorbis": ("OGG", "VORBIS")}
SET_COMPRESSION = 0x1301  # libsndfile's own number; older releases of soundfile have no argument for it


def level(x, rms=0.05):
    return x / (np.sqrt((x**2).mean()) + 1e-6) * rms


def coded(x, kind, strength, rate=RATE):
    """`strength` 0 to 1: how much is thrown away."""
    file_format, subtype = FORMATS[kind]
    out = io.BytesIO()
    with soundfile.SoundFile(out, "w", rate, 1, subtype, format=file_format) as f:
        soundfile._snd.sf_command(f._file, SET_COMPRESSION, soundfile._ffi.new("double *", strength), 8)
        f.write(np.clip(x, -1, 1).astype(np.float32))
    out.seek(0)
    y = soundfile.read(out, dtype="float32")[0]
    return np.pad(y, (0, max(0, len(x) - len(y))))[: len(x)]


def microphone(x, rng, wander=2.0):
    gain = 10 ** (np.cumsum(rng.normal(0, wander, 9)) / 20)  # dB a kilohertz
    return signal.oaconvolve(x, signal.firwin2(129, np.linspace(0, 1, 9), gain / gain.mean()), "same")


def room(x, rng, longest=0.12, loudest=0.35):
    n = int(rng.uniform(0.02, longest) * RATE)
    echo = rng.normal(0, 1, n) * np.exp(-4 * np.arange(n) / n)
    echo *= rng.uniform(0.15 * loudest, loudest) / np.sqrt((echo**2).sum())
    echo[0] = 1
    return signal.oaconvolve(x, echo)[: len(x)]


def noise(x, rng, ratio=(22, 50)):
    """`ratio`: decibels of speech over noise, white or pinkish."""
    n = rng.normal(0, 1, len(x))
    if rng.random() < 0.5:
        n = signal.lfilter([1], [1, -0.95], n)
    return x + n * np.sqrt((x**2).mean() / (n**2).mean()) * 10 ** (-rng.uniform(*ratio) / 20)


def telephone(x, rng):
    y = signal.resample_poly(signal.sosfilt(signal.butter(4, [300, 3400], "band", fs=RATE, output="sos"), x), 1, 2)
    y = np.clip(level(y, 0.1), -1, 1)
    code = np.round(np.sign(y) * np.log1p(255 * np.abs(y)) / np.log(256) * 127) / 127  # μ-law, eight bits
    y = np.sign(code) * (256 ** np.abs(code) - 1) / 255
    return signal.resample_poly(y, 2, 1)[: len(x)]


def rerecorded(x, rng):
    """Played by a small loudspeaker and recorded across a room."""
    y = signal.sosfilt(signal.butter(2, rng.uniform(120, 300), "high", fs=RATE, output="sos"), x)
    y = np.tanh(level(y, 0.1) * rng.uniform(1, 4))
    return noise(room(microphone(y, rng, 2.5), rng, 0.3, 0.8), rng, (20, 35))


CONDITIONS = {
    "MP3": lambda x, rng: coded(level(x), "mp3", 0.85),
    "Opus": lambda x, rng: coded(level(x), "opus", 0.9),
    "telephone": telephone,
    "room": lambda x, rng: room(x, rng, 0.3, 0.7),
    "re-recorded": rerecorded,
    "noise 20 dB": lambda x, rng: noise(x, rng, (20, 20)),
}


def augmented(x, rng):
    """A training copy: another part and speed, then some of the changes above."""
    x = level(x)
    keep = max(RATE, int(len(x) * rng.uniform(0.6, 1)))
    start = rng.integers(0, max(1, len(x) - keep + 1))
    x = x[start:start + keep]
    if rng.random() < 0.5:
        x = np.interp(np.arange(0, len(x) - 1, rng.uniform(0.93, 1.07)), np.arange(len(x)), x)
    if rng.random() < 0.12:
        x = rerecorded(x, rng)
    else:
        for change, chance in ((microphone, 0.7), (room, 0.3), (noise, 0.6)):
            if rng.random() < chance:
                x = change(x, rng)
    if rng.random() < 0.1:
        return telephone(x, rng).astype(np.float32)
    if rng.random() < 0.5:
        x = coded(level(x), rng.choice(list(FORMATS)), rng.uniform(0.3, 0.95))
    return np.asarray(x, dtype=np.float32)

/** WAV: integers of 8 to 32 bits, floats of 32 and 64, A-law and µ-law; up to 8 channels. */

import { riffChunks, viewOf } from "../containers.ts";
import { AudioError, type Clip, checkShape, Recorder } from "./clip.ts";

type Form = { tag: number; channels: number; sampleRate: number; bits: number };
type ReadSample = (view: DataView, at: number) => number;

const EXTENSIBLE = 0xfffe;

/** Readers by tag and bits; they return −1 to 1. */
const READERS: Record<string, ReadSample> = {
  "1/8": (view, at) => (view.getUint8(at) - 128) / 128, // the only unsigned format
  "1/16": (view, at) => view.getInt16(at, true) / 32_768,
  "1/24": (view, at) => ((view.getInt8(at + 2) << 16) | view.getUint16(at, true)) / 8_388_608,
  "1/32": (view, at) => view.getInt32(at, true) / 2_147_483_648,
  "3/32": (view, at) => view.getFloat32(at, true),
  "3/64": (view, at) => view.getFloat64(at, true),
  "6/8": (view, at) => aLaw(view.getUint8(at)),
  "7/8": (view, at) => muLaw(view.getUint8(at)),
};

export function readWav(bytes: Uint8Array): Clip {
  let form: Form | undefined;
  for (const { type, body } of riffChunks(bytes)) {
    if (type === "fmt ") form = readForm(body);
    if (type !== "data") continue;
    if (!form) throw new AudioError("The WAV has samples before its format chunk");
    return readSamples(body, form);
  }
  throw new AudioError("The WAV has no samples");
}

function readForm(body: Uint8Array): Form {
  if (body.length < 16) throw new AudioError("The WAV's format chunk is truncated");
  const view = viewOf(body);
  const said = view.getUint16(0, true);
  const tag = said === EXTENSIBLE && body.length >= 26 ? view.getUint16(24, true) : said;
  return {
    tag,
    channels: view.getUint16(2, true),
    sampleRate: view.getUint32(4, true),
    bits: view.getUint16(14, true),
  };
}

function readSamples(body: Uint8Array, { tag, channels, sampleRate, bits }: Form): Clip {
  checkShape(sampleRate, channels);
  const read = READERS[`${tag}/${bits}`];
  if (!read) throw new AudioError(`A WAV of encoding ${tag} with ${bits} bits is not supported. Send 16-bit PCM`);
  const view = viewOf(body);
  const bytesEach = bits / 8;
  const frames = Math.floor(body.length / (bytesEach * channels));
  const recorder = new Recorder();
  const room = recorder.extend(frames);
  for (let i = 0, at = 0; i < frames; i++) {
    let sum = 0;
    for (let c = 0; c < channels; c++, at += bytesEach) sum += read(view, at);
    const mixed = sum / channels;
    room[i] = Number.isFinite(mixed) ? Math.min(1, Math.max(-1, mixed)) : 0;
  }
  return { samples: recorder.samples, sampleRate, channels };
}

/** ITU-T G.711. */
function aLaw(byte: number): number {
  const code = byte ^ 0x55;
  const [exponent, mantissa] = [(code >> 4) & 7, code & 15];
  const size = exponent === 0 ? mantissa * 16 + 8 : (mantissa * 16 + 264) << (exponent - 1);
  return (code & 0x80 ? size : -size) / 32_768;
}

function muLaw(byte: number): number {
  const code = ~byte & 0xff;
  const size = (((code & 15) * 8 + 132) << ((code >> 4) & 7)) - 132;
  return (code & 0x80 ? -size : size) / 32_768;
}

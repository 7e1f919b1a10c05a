/** Recordings made on the spot: a tone in each channel. */
export type Sound = { seconds: number; channels: number; bits: number; rate?: number; tag?: number; level?: number };

const HERTZ = 440;

export const toneAt = (i: number, channel: number, rate: number, level = 0.5) =>
  level * Math.sin((2 * Math.PI * HERTZ * (1 + channel / 2) * i) / rate);

const PCM = 1;
const FLOAT = 3;

export function wavOf({
  seconds,
  channels,
  bits,
  rate = 16_000,
  tag = PCM,
  level = 0.5,
}: Sound): Uint8Array<ArrayBuffer> {
  const frames = Math.round(seconds * rate);
  const each = bits / 8;
  const file = Buffer.alloc(44 + frames * channels * each);
  file.write("RIFF", 0, "latin1");
  file.writeUInt32LE(file.length - 8, 4);
  file.write("WAVEfmt ", 8, "latin1");
  file.writeUInt32LE(16, 16);
  file.writeUInt16LE(tag, 20);
  file.writeUInt16LE(channels, 22);
  file.writeUInt32LE(rate, 24);
  file.writeUInt32LE(rate * channels * each, 28);
  file.writeUInt16LE(channels * each, 32);
  file.writeUInt16LE(bits, 34);
  file.write("data", 36, "latin1");
  file.writeUInt32LE(file.length - 44, 40);
  for (let i = 0, at = 44; i < frames; i++)
    for (let c = 0; c < channels; c++, at += each) writeSample(file, at, toneAt(i, c, rate, level), tag, bits);
  return Uint8Array.from(file);
}

function writeSample(file: Buffer, at: number, value: number, tag: number, bits: number) {
  if (tag === FLOAT) return bits === 64 ? file.writeDoubleLE(value, at) : file.writeFloatLE(value, at);
  if (bits === 8) return file.writeUInt8(Math.round(value * 127) + 128, at);
  return file.writeIntLE(Math.round(value * (2 ** (bits - 1) - 1)), at, bits / 8);
}

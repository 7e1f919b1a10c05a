/**
 * FLAC (RFC 9639), native streams. Every frame's checksum is verified. Data after the last complete frame is ignored.
 */

import { afterId3, hasText } from "../../../lib/detection/sniff.ts";
import { viewOf } from "../containers.ts";
import { Bits } from "./bits.ts";
import { AudioError, type Clip, checkShape, Recorder } from "./clip.ts";
import { readSubframe } from "./flac_subframe.ts";

type Stream = { sampleRate: number; channels: number; bits: number; firstFrame: number };
type Frame = { size: number; channels: number; bits: number; assignment: number };

const STREAMINFO = 0;
const MAX_BLOCKS = 200;
const RATES = [0, 88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000];
const DEPTHS = [0, 8, 12, 0, 16, 20, 24, 32];
const [LEFT_SIDE, SIDE_RIGHT, MID_SIDE] = [8, 9, 10];

export function readFlac(bytes: Uint8Array): Clip {
  const stream = readStream(bytes);
  const recorder = new Recorder();
  let at = stream.firstFrame;
  try {
    while (at + 8 < bytes.length) at = readFrame(bytes, at, stream, recorder);
  } catch (error) {
    if (error instanceof AudioError && error.tooLong) throw error;
    if (recorder.samples.length === 0) throw broken(error);
  }
  if (recorder.samples.length === 0) throw new AudioError("The FLAC has no samples");
  return { samples: recorder.samples, sampleRate: stream.sampleRate, channels: stream.channels };
}

const broken = (cause: unknown) =>
  cause instanceof AudioError ? cause : new AudioError(`The FLAC is damaged: ${(cause as Error).message}`);

function readStream(bytes: Uint8Array): Stream {
  const start = afterId3(bytes);
  if (!hasText(bytes, start, "fLaC")) throw new AudioError("The file is not a FLAC");
  let stream: Omit<Stream, "firstFrame"> | undefined;
  let at = start + 4;
  for (let count = 0; count < MAX_BLOCKS && at + 4 <= bytes.length; count++) {
    const head = viewOf(bytes).getUint32(at);
    const body = bytes.subarray(at + 4, at + 4 + (head & 0xffffff));
    if (((head >>> 24) & 0x7f) === STREAMINFO && body.length >= 34) {
      const fields = viewOf(body).getUint32(10); // 20 bits of rate, 3 of channels, 5 of depth
      stream = { sampleRate: fields >>> 12, channels: ((fields >>> 9) & 7) + 1, bits: ((fields >>> 4) & 31) + 1 };
    }
    at += 4 + (head & 0xffffff);
    if (head >>> 31 === 0) continue;
    if (!stream) break;
    checkShape(stream.sampleRate, stream.channels);
    return { ...stream, firstFrame: at };
  }
  throw new AudioError("The FLAC has no description of its stream");
}

/** Returns the start of the next frame. */
function readFrame(bytes: Uint8Array, from: number, stream: Stream, recorder: Recorder): number {
  const bits = new Bits(bytes, from);
  const frame = readFrameHeader(bits, stream);
  const channels: Float64Array[] = [];
  for (let c = 0; c < frame.channels; c++) {
    const isSide = c === (frame.assignment === SIDE_RIGHT ? 0 : 1) && frame.assignment >= LEFT_SIDE;
    channels.push(readSubframe(bits, frame.size, frame.bits + (isSide ? 1 : 0)));
  }
  bits.align();
  const end = bits.byte;
  if (crc16(bytes.subarray(from, end)) !== bits.read(16)) throw new AudioError("A frame of the FLAC is damaged");
  mix(channels, frame, recorder);
  return end + 2;
}

function readFrameHeader(bits: Bits, stream: Stream): Frame {
  if (bits.read(15) !== 0x7ffc) throw new AudioError("A frame of the FLAC is at the wrong position");
  bits.read(1); // fixed or variable sizes: each frame carries its size
  const [sizeCode, rateCode, assignment, depthCode] = [bits.read(4), bits.read(4), bits.read(4), bits.read(3)];
  bits.read(1);
  const extra = Math.clz32(~(bits.read(8) << 24)); // the frame's number, in extended UTF-8
  for (let i = 1; i < extra; i++) bits.read(8);
  const size = blockSize(bits, sizeCode);
  if (rateCode === 12) bits.read(8);
  else if (rateCode === 13 || rateCode === 14) bits.read(16);
  const rate = RATES[rateCode] || stream.sampleRate;
  bits.read(8);
  const channels = assignment < LEFT_SIDE ? assignment + 1 : 2;
  const depth = DEPTHS[depthCode] || stream.bits;
  if (assignment > MID_SIDE || rateCode === 15 || channels !== stream.channels || rate !== stream.sampleRate)
    throw new AudioError("The FLAC changes its format in the middle");
  return { size, channels, bits: depth, assignment };
}

function blockSize(bits: Bits, code: number): number {
  if (code === 1) return 192;
  if (code >= 2 && code <= 5) return 576 << (code - 2);
  if (code === 6) return bits.read(8) + 1;
  if (code === 7) return bits.read(16) + 1;
  if (code >= 8) return 256 << (code - 8);
  throw new AudioError("A frame of the FLAC has no size");
}

function mix(channels: readonly Float64Array[], { size, bits, assignment }: Frame, recorder: Recorder) {
  const room = recorder.extend(size);
  const scale = 1 / (channels.length * 2 ** (bits - 1));
  const [first, second] = [channels[0]!, channels[1]];
  for (let i = 0; i < size; i++) {
    const [a, b] = [first[i]!, second?.[i] ?? 0];
    let sum = 0;
    if (assignment === LEFT_SIDE) sum = 2 * a - b;
    else if (assignment === SIDE_RIGHT) sum = a + 2 * b;
    else if (assignment === MID_SIDE)
      sum = 2 * a + (b & 1); // the bit that halving the sum lost
    else for (const channel of channels) sum += channel[i]!;
    room[i] = sum * scale;
  }
}

const CRC = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let i = 0; i < 8; i++) crc = crc & 0x8000 ? (crc << 1) ^ 0x8005 : crc << 1;
  return crc;
});

function crc16(bytes: Uint8Array): number {
  let crc = 0;
  for (let i = 0; i < bytes.length; i++) crc = ((crc << 8) & 0xffff) ^ CRC[(crc >> 8) ^ bytes[i]!]!;
  return crc;
}

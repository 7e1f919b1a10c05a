/** Recordings that lie about their size, or that become far more than they are. Each fits into one request. */
import { wavOf } from "./sounds.ts";

const MOST_BYTES = 10_485_760;

export type Bomb = { name: string; bytes: Uint8Array };

const wav = (change: (file: Buffer) => void, seconds = 1): Uint8Array => {
  const file = Buffer.from(wavOf({ seconds, channels: 1, bits: 16 }));
  change(file);
  return file;
};

const filled = (...parts: Uint8Array[]): Uint8Array => {
  const bytes = Buffer.alloc(MOST_BYTES - 1_000);
  const [head = new Uint8Array(), unit = Buffer.of(0)] = parts;
  bytes.set(head);
  let at = head.length;
  for (; at + unit.length <= bytes.length; at += unit.length) bytes.set(unit, at);
  return bytes.subarray(0, at);
};

function wavs(): Bomb[] {
  const long = wav((file) => {
    file.writeUInt32LE(4_000, 24);
    file.writeUInt16LE(8, 34);
  });
  const chunk = Buffer.from("junk\0\0\0\0", "latin1");
  return [
    { name: "WAV with a length of 4 GiB", bytes: wav((file) => file.writeUInt32LE(0xffffffff, 40)) },
    { name: "WAV in a RIFF of 0 bytes", bytes: wav((file) => file.writeUInt32LE(0, 4)) },
    { name: "WAV with a format of 4 GiB", bytes: wav((file) => file.writeUInt32LE(0xffffffff, 16)) },
    { name: "WAV with 65,535 channels", bytes: wav((file) => file.writeUInt16LE(65_535, 22)) },
    { name: "WAV without channels", bytes: wav((file) => file.writeUInt16LE(0, 22)) },
    { name: "WAV of 0 Hz", bytes: wav((file) => file.writeUInt32LE(0, 24)) },
    { name: "WAV of 4 GHz", bytes: wav((file) => file.writeUInt32LE(0xffffffff, 24)) },
    { name: "WAV with samples of 0 bits", bytes: wav((file) => file.writeUInt16LE(0, 34)) },
    { name: "WAV with samples of 65,535 bits", bytes: wav((file) => file.writeUInt16LE(65_535, 34)) },
    { name: "WAV without samples", bytes: wav(() => {}).subarray(0, 44) },
    { name: "WAV of a million empty chunks", bytes: filled(wav(() => {}).subarray(0, 36), chunk) },
    { name: "WAV of 43 minutes", bytes: filled(long.subarray(0, 44).map((byte, i) => (i > 39 ? 0x7f : byte))) },
  ];
}

/** 16 kHz, mono or `channels`, 16 bits; it says that it has 2^36 − 1 samples. */
function flacHead(channels: number): Uint8Array {
  const info = Buffer.alloc(42);
  info.write("fLaC", 0, "latin1");
  info.writeUInt32BE(0x80000022, 4); // the last block, 34 bytes
  info.writeUInt16BE(16, 8);
  info.writeUInt16BE(65_535, 10);
  info.writeUInt32BE(((16_000 << 12) | ((channels - 1) << 9) | (15 << 4) | 0xf) >>> 0, 18);
  info.writeUInt32BE(0xffffffff, 22);
  return info;
}

function crc16(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let i = 0; i < 8; i++) crc = crc & 0x8000 ? ((crc << 1) ^ 0x8005) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc;
}

function flacFrame(channels: number, subframe: Uint8Array): Uint8Array {
  const head = Buffer.of(0xff, 0xf8, 0x70, (channels - 1) << 4, 0, 0xff, 0xfe, 0); // 65,535 samples
  const body = Buffer.concat([head, ...Array.from({ length: channels }, () => subframe)]);
  const end = Buffer.alloc(2);
  end.writeUInt16BE(crc16(body));
  return Buffer.concat([body, end]);
}

const SILENCE = Buffer.of(0, 0, 0); // constant: one value for all samples of the frame

/** A prediction from 32 samples for each sample, whose error takes one bit: much work for few bytes. */
function heavySubframe(): Uint8Array {
  const bits: string[] = ["0", "111111", "0", "0".repeat(16 * 32), "1110", "00001", "0".repeat(15 * 32)];
  bits.push("00", "0000", "0000", "1".repeat(65_535 - 32));
  const text = bits.join("");
  const bytes = Buffer.alloc(Math.ceil(text.length / 8));
  for (let i = 0; i < text.length; i++) if (text[i] === "1") bytes[i >> 3]! |= 0x80 >> (i & 7);
  return bytes;
}

function flacs(): Bomb[] {
  const heavy = heavySubframe();
  const block = Buffer.from([1, 0xff, 0xff, 0xff]); // padding of 16 MiB
  return [
    { name: "FLAC of 600 hours of silence", bytes: filled(flacHead(1), flacFrame(1, SILENCE)) },
    { name: "FLAC of silence in 8 channels", bytes: filled(flacHead(8), flacFrame(8, SILENCE)) },
    { name: "FLAC that predicts from 32 samples", bytes: filled(flacHead(1), flacFrame(1, heavy)) },
    { name: "FLAC of a description alone", bytes: flacHead(1) },
    { name: "FLAC whose blocks are longer than it is", bytes: Buffer.concat([Buffer.from("fLaC"), block, block]) },
    { name: "FLAC of empty blocks", bytes: filled(Buffer.from("fLaC"), Buffer.from([1, 0, 0, 0])) },
    { name: "FLAC of zeros", bytes: filled(flacHead(1), Buffer.of(0)) },
    { name: "FLAC of ones", bytes: filled(flacHead(1), Buffer.of(0xff)) },
  ];
}

/** MPEG 2.5, layer III, 8 kbit/s, 8 kHz: 72 bytes for 72 ms of silence. */
const FRAME = Buffer.concat([Buffer.of(0xff, 0xe3, 0x18, 0xc0), Buffer.alloc(68)]);

function mp3s(): Bomb[] {
  const id3 = (size: number) =>
    Buffer.from(["I".charCodeAt(0), "D".charCodeAt(0), "3".charCodeAt(0), 4, 0, 0, size, size, size, size]);
  const free = Buffer.from(FRAME);
  free[2] = 0x08; // a free bit rate: the length follows from the next frame
  return [
    { name: "MP3 of hours of silence", bytes: filled(FRAME, FRAME) },
    { name: "MP3 behind a tag of 256 MiB", bytes: Buffer.concat([id3(0x7f), FRAME, FRAME]) },
    { name: "MP3 of tags", bytes: filled(id3(0), id3(0)) },
    { name: "MP3 of a free bit rate", bytes: filled(free, free) },
    { name: "MP3 of headers alone", bytes: filled(FRAME.subarray(0, 4), FRAME.subarray(0, 4)) },
    { name: "MP3 of ones", bytes: filled(FRAME, Buffer.of(0xff)) },
  ];
}

export const audioBombs = (): Bomb[] => [...wavs(), ...flacs(), ...mp3s()];

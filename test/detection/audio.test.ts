/** Recordings of every encoding are heard as the same tone. Fixtures were written by libsndfile. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { cutWindows, readClip } from "../../src/workers/detector/audio/audio.ts";
import { AudioError, MAX_SAMPLES } from "../../src/workers/detector/audio/clip.ts";
import { readFlac } from "../../src/workers/detector/audio/flac.ts";
import { resample } from "../../src/workers/detector/audio/resample.ts";
import { readWav } from "../../src/workers/detector/audio/wav.ts";
import { MAX_WINDOWS, planWindows, WINDOW } from "../../src/workers/detector/audio/windows.ts";
import { toneAt, wavOf } from "./sounds.ts";

const fixture = (name: string) => Bun.file(join(import.meta.dir, "../fixtures/audio", name)).bytes();
const largest = (values: Iterable<number>) => Math.max(...Array.from(values, Math.abs));
const mixAt = (i: number, channels: number, rate: number) =>
  Array.from({ length: channels }, (_, c) => toneAt(i, c, rate)).reduce((a, b) => a + b) / channels;

describe("WAV", () => {
  test.each([
    ["8 bits", 8, 1, 2 ** -6],
    ["16 bits", 16, 1, 2 ** -14],
    ["24 bits", 24, 1, 2 ** -22],
    ["32 bits", 32, 1, 2 ** -22],
    ["floats", 32, 3, 2 ** -22],
    ["doubles", 64, 3, 2 ** -22],
  ])("%s", (_name, bits, tag, error) => {
    const { samples, sampleRate, channels } = readWav(wavOf({ seconds: 0.2, channels: 2, bits, tag, rate: 44_100 }));
    expect([samples.length, sampleRate, channels]).toEqual([8_820, 44_100, 2]);
    expect(largest(samples.map((sample, i) => sample - mixAt(i, 2, 44_100)))).toBeLessThan(error);
  });

  test("A-law and µ-law are those of G.711", () => {
    const coded = (tag: number) => {
      const file = wavOf({ seconds: 256 / 16_000, channels: 1, bits: 8, tag: 1 });
      file.set([tag], 20);
      file.set(Array.from({ length: 256 }, (_, i) => i), 44); // biome-ignore format: one thing
      return Array.from(readWav(file).samples, (sample) => sample * 32_768);
    };
    const [a, mu] = [coded(6), coded(7)];
    expect([a[0xd5], a[0x55], a[0xaa], a[0x2a]]).toEqual([8, -8, 32_256, -32_256]);
    expect([mu[0xff], mu[0x7f], mu[0x80], mu[0x00]]).toEqual([0, 0, 32_124, -32_124]);
  });

  test("an unknown, truncated or impossible file is refused with a message", () => {
    const file = wavOf({ seconds: 0.1, channels: 1, bits: 16 });
    const changed = (at: number, value: number) => file.with(at, value);
    expect(() => readWav(changed(20, 0x11))).toThrow("encoding 17");
    expect(() => readWav(changed(22, 0))).toThrow("0 channels");
    expect(() => readWav(file.slice(0, 30))).toThrow("truncated");
    expect(() => readWav(file.slice(0, 40))).toThrow("no samples");
  });

  test("a wrong length ends with the file", () => {
    const file = wavOf({ seconds: 0.1, channels: 1, bits: 16 });
    file.fill(0xff, 40, 44);
    expect(readWav(file).samples).toHaveLength(1_600);
  });
});

describe("FLAC", () => {
  test.each([
    ["stereo_16.flac", 22_050, 44_100, 2, 2 ** -14],
    ["mono_24.flac", 12_000, 24_000, 1, 2 ** -21],
  ])("%s", async (name, length, rate, count, error) => {
    const { samples, sampleRate, channels } = readFlac(await fixture(name));
    expect([samples.length, sampleRate, channels]).toEqual([length, rate, count]);
    expect(largest(samples.map((sample, i) => sample - mixAt(i, count, rate)))).toBeLessThan(error);
  });

  test("a damaged frame ends the clip; a file without a whole frame is refused", async () => {
    const bytes = await fixture("stereo_16.flac");
    const whole = readFlac(bytes).samples.length;
    const cut = readFlac(bytes.slice(0, -100)).samples.length;
    expect(cut).toBeGreaterThan(0);
    expect(cut).toBeLessThan(whole);
    expect(() => readFlac(bytes.slice(0, 8_000).fill(0x55, 200))).toThrow(AudioError);
  });

  test.each([1, 3, 8])("low bits that are always zero are left out of a frame: %i of them", async (wasted) => {
    const head = await flacHead();
    const values = [-5, 7, 1_000, -32_768];
    // a header, verbatim samples of 24 bits without the wasted ones
    const bits = [`00000011${"1".padStart(wasted, "0")}`, ...values.map((value) => twosComplement(value, 24 - wasted))];
    const text = bits.join("");
    const body = text.padEnd(Math.ceil(text.length / 8) * 8, "0").match(/.{8}/g) ?? [];
    const frame = [
      0xff,
      0xf8,
      0x60,
      0x0c,
      0x00,
      values.length - 1,
      0x00,
      ...body.map((byte) => Number.parseInt(byte, 2)),
    ];
    const sum = crc16(frame);
    const { samples } = readFlac(Uint8Array.from([...head, ...frame, sum >> 8, sum & 255]));
    expect([...samples]).toEqual(values.map((value) => (value * 2 ** wasted) / 2 ** 23));
  });

  test("empty frames cannot fill the memory", async () => {
    const head = await flacHead();
    // 65,536 constant samples: a header, one value, two checksums
    const frame = [0xff, 0xf8, 0x70, 0x0c, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0x00];
    const sum = crc16(frame);
    const one = Uint8Array.from([...frame, sum >> 8, sum & 255]);
    const bomb = new Uint8Array(head.length + one.length * 2_000);
    bomb.set(head);
    for (let i = 0; i < 2_000; i++) bomb.set(one, head.length + i * one.length);
    expect(() => readFlac(bomb)).toThrow(`${MAX_SAMPLES / 1e6} million`);
  });
});

/** Magic and description of a file with one channel and 24 bits. Frames may follow. */
async function flacHead(): Promise<Uint8Array> {
  const head = (await fixture("mono_24.flac")).slice(0, 4 + 38);
  head[4] = 0x80; // the last block
  return head;
}

const twosComplement = (value: number, bits: number) =>
  (2 ** bits + value).toString(2).slice(-bits).padStart(bits, "0");

function crc16(bytes: readonly number[]): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let i = 0; i < 8; i++) crc = crc & 0x8000 ? ((crc << 1) ^ 0x8005) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc;
}

test("MP3", async () => {
  const heard = await readClip(await fixture("mono.mp3"));
  expect(heard).toMatchObject({ format: "mp3", sampleRate: 16_000, channels: 1, count: 1 });
  expect(heard.seconds).toBeWithin(0.9, 1.3);
  expect(largest(heard.windows)).toBeWithin(0.4, 0.6);
});

test("another sample rate gives the same tone, and frequencies that 16 kHz cannot hold are not folded back", () => {
  const tone = (hertz: number, rate: number) =>
    Float32Array.from({ length: rate * 2 }, (_, i) => Math.sin((2 * Math.PI * hertz * i) / rate));
  for (const rate of [8_000, 22_050, 44_100, 48_000, 96_000]) {
    const heard = resample(tone(1_000, rate), rate, 8_000, 4_000);
    const error = heard.map((sample, i) => sample - Math.sin((2 * Math.PI * 1_000 * (8_000 + i)) / 16_000));
    expect(largest(error)).toBeLessThan(1e-3);
  }
  expect(largest(resample(tone(9_000, 48_000), 48_000, 8_000, 4_000))).toBeLessThan(5e-3);
});

test("windows cover a clip from its start to its end, at most eight of them", () => {
  expect(planWindows(100)).toEqual([0]);
  expect(planWindows(WINDOW)).toEqual([0]);
  expect(planWindows(WINDOW + 10)).toEqual([0, 10]);
  const long = planWindows(WINDOW * 100);
  expect([long.length, long[0], long.at(-1)]).toEqual([MAX_WINDOWS, 0, WINDOW * 99]);
});

test("a short clip is repeated until it fills a window, and a very short one is refused", () => {
  const samples = Float32Array.from({ length: 20_000 }, (_, i) => i / 20_000);
  const { windows, count } = cutWindows({ samples, sampleRate: 16_000, channels: 1 });
  expect(count).toBe(1);
  expect(windows[20_000 + 123]).toBe(samples[123]!);
  expect(windows[47_999]).toBe(samples[7_999]!);
  expect(() => cutWindows({ samples: samples.slice(0, 3_000), sampleRate: 16_000, channels: 1 })).toThrow("quarter");
});

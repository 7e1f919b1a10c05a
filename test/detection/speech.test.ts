/** Drawn sounds: syllables with pitch and formants are speech; tones, chords, noise and silence are not. */
import { expect, test } from "bun:test";
import { Fourier } from "../../src/workers/detector/audio/fourier.ts";
import { isSpeech } from "../../src/workers/detector/audio/speech.ts";
import { RATE, WINDOW } from "../../src/workers/detector/audio/windows.ts";
import { randomFor } from "../sweep.ts";

const random = randomFor("sounds that are speech or not");
const sound = (at: (seconds: number, i: number) => number) =>
  Float32Array.from({ length: WINDOW }, (_, i) => at(i / RATE, i));
const noise = () => random() * 2 - 1;
const chord = (...hertz: number[]) =>
  sound((t) => hertz.reduce((sum, each) => sum + 0.1 * Math.sin(2 * Math.PI * each * t), 0));

/** Pulses of a falling pitch through two resonances, a hiss before each second syllable, and pauses. */
function syllables(pitch: number): Float32Array {
  const vowels = [[700, 1_200], [300, 2_200], [450, 900], [500, 1_800]] as const; // biome-ignore format: one thing
  const out = new Float32Array(WINDOW);
  const memory = [0, 0, 0, 0];
  let phase = 0;
  for (let i = 0; i < WINDOW; i++) {
    const t = i / RATE;
    const syllable = Math.floor(t * 4.3);
    const within = t * 4.3 - syllable;
    const isPause = syllable % 6 === 5;
    const hertz = pitch * (1.25 - 0.12 * t + 0.1 * Math.sin(9 * t) + 0.02 * noise());
    phase += hertz / RATE;
    const pulse = phase >= 1 ? 1 : 0;
    phase %= 1;
    const isHiss = syllable % 2 === 0 && within < 0.25;
    const loud = isPause ? 0 : isHiss ? 0.05 : Math.sin(Math.PI * Math.min(1, within * 1.1)) ** 2;
    let value = isHiss ? 0.2 * noise() : pulse + 0.01 * noise();
    for (const [k, formant] of vowels[syllable % 4]!.entries()) {
      const r = 0.97;
      const next =
        value + 2 * r * Math.cos((2 * Math.PI * formant) / RATE) * memory[2 * k]! - r * r * memory[2 * k + 1]!;
      memory[2 * k + 1] = memory[2 * k]!;
      memory[2 * k] = next;
      value = next / 20;
    }
    out[i] = loud * value + 1e-4 * noise();
  }
  return out;
}

test.each([95, 130, 190, 230])("drawn syllables at %d Hz are speech", (pitch) => {
  expect(isSpeech(syllables(pitch), 1)).toBe(true);
});

test.each<[string, () => Float32Array]>([
  ["silence", () => sound(() => 0)],
  ["white noise", () => sound(() => 0.1 * noise())],
  ["a tone", () => chord(440)],
  ["a chord", () => chord(220, 277, 330)],
  ["hum", () => sound((t) => 0.1 * Math.sign(Math.sin(2 * Math.PI * 50 * t)))],
  ["clicks", () => sound((_, i) => (i % 8_000 === 0 ? 0.9 : 0.001 * noise()))],
])("%s is no speech", (_name, draw) => {
  expect(isSpeech(draw(), 1)).toBe(false);
});

test("of a long recording windows are looked at from its beginning to its end, and loudness does not count", () => {
  const [voice, hiss] = [syllables(120), sound(() => 0.1 * noise())];
  const joined = (...windows: Float32Array[]) => Float32Array.from(windows.flatMap((each) => [...each]));
  expect(isSpeech(joined(voice, hiss, voice, hiss, voice), 5)).toBe(true); // the first, the middle and the last
  expect(isSpeech(joined(hiss, voice, hiss, voice, hiss), 5)).toBe(false);
  expect(
    isSpeech(
      voice.map((value) => value / 50),
      1,
    ),
  ).toBe(true);
});

test("the transform is that of the definition", () => {
  const length = 16;
  const values = Float64Array.from({ length }, () => noise());
  const [re, im] = [values.slice(), new Float64Array(length)];
  new Fourier(length).transform(re, im);
  for (let k = 0; k < length; k++) {
    const turn = (i: number) => (-2 * Math.PI * k * i) / length;
    expect(re[k]!).toBeCloseTo(
      values.reduce((sum, value, i) => sum + value * Math.cos(turn(i)), 0),
      9,
    );
    expect(im[k]!).toBeCloseTo(
      values.reduce((sum, value, i) => sum + value * Math.sin(turn(i)), 0),
      9,
    );
  }
});

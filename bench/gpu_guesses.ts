/**
 * Guessed tokens of a lone stream on one GPU: how long a step of few rows takes, from which the costs of guesses follow
 * (src/workers/decoder/guessing), and the speed with and without guesses, for texts that repeat themselves more or less.
 * A model that echoes its last token, drawn from at some temperature, makes such texts; a random model makes one that
 * never repeats. `bun bench/gpu_guesses.ts [--shape 0.5B] [--tokens 512]`
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Device, PAGE } from "../src/native/cuda/decode/kernels.ts";
import { openDecoder } from "../src/workers/decoder/decoder.ts";
import { type Drawing, PLAIN } from "../src/workers/decoder/drawing.ts";
import { headerOf } from "../src/workers/decoder/header.ts";
import { type DecoderModel, loadModel } from "../src/workers/decoder/model.ts";
import type { Decoder } from "../src/workers/decoder/types.ts";
import { hasDevice, openBenchDevice } from "./decode/device.ts";
import { SHAPES } from "./decode/shapes.ts";
import { writeRolloutModel } from "./peers/rollout_model.ts";
import { median, remove, tempDir } from "./tools.ts";

const PROMPT = 128;
const ROWS = [1, 2, 3, 4, 6, 8];
const TEMPERATURES = [0, 1.6, 2, 2.2, 2.4]; // at 2.4 about every second token of the echo is another one
const ROUNDS = 3;

const prompt = (seed: number) => Int32Array.from({ length: PROMPT }, (_, i) => 300 + ((seed * 613 + i * 31) % 1700));
const sizeOf = (slots: number, tokens: number) => {
  const contextLength = PROMPT + tokens;
  return { slots, contextLength, pages: slots * Math.ceil(contextLength / PAGE), promptTokens: 512, ahead: true };
};

/** Microseconds of a step of so many sequences. Without `ahead`, the host reads each step before the next. */
function stepTime(device: Device, model: DecoderModel, rows: number, ahead: boolean): number {
  const tokens = 128;
  const decoder = openDecoder(device, model, { ...sizeOf(rows, tokens), ahead });
  const ids = Array.from({ length: rows }, (_, i) =>
    decoder.admit({ prompt: prompt(i), maxTokens: tokens, drawing: { ...PLAIN, seed: i } }),
  );
  const times: number[] = [];
  for (let begun = performance.now(), left = tokens - 2; left > 0; left--) {
    decoder.step();
    times.push(performance.now() - begun);
    begun = performance.now();
  }
  for (const id of ids) decoder.release(id!);
  decoder.close();
  return 1000 * median(times.slice(times.length >> 1)); // graphs are recorded in the first half
}

type Said = { rate: number; steps: number; tokens: string };

function say(decoder: Decoder, drawing: Drawing, tokens: number): Said {
  const before = decoder.stats().steps;
  const id = decoder.admit({ prompt: prompt(drawing.seed), maxTokens: tokens, drawing })!;
  const said: number[] = [];
  while (said.length === 0) said.push(...decoder.step().map(({ token }) => token)); // the prompt does not count
  const begun = performance.now();
  const first = said.length;
  while (said.length < tokens) said.push(...decoder.step().map(({ token }) => token));
  const ms = performance.now() - begun;
  decoder.release(id);
  return { rate: (1000 * (tokens - first)) / ms, steps: decoder.stats().steps - before, tokens: said.join() };
}

/** Both say the same tokens; the best of some rounds. */
function compare(device: Device, model: DecoderModel, drawing: Drawing, tokens: number) {
  const [plain, guessing] = [false, true].map((guesses) => {
    const decoder = openDecoder(device, model, { ...sizeOf(1, tokens), guesses });
    const all = Array.from({ length: ROUNDS }, () => say(decoder, drawing, tokens));
    decoder.close();
    return all.reduce((a, b) => (b.rate > a.rate ? b : a));
  }) as [Said, Said];
  return {
    plain: plain.rate,
    guessing: guessing.rate,
    perStep: tokens / guessing.steps,
    same: plain.tokens === guessing.tokens,
    other: new Set(plain.tokens.split(",")).size,
  };
}

async function measure(name: string, tokens: number) {
  const shape = SHAPES[name];
  if (!shape) throw new Error(`There is no shape ${name}. Shapes: ${Object.keys(SHAPES).join(", ")}`);
  const dir = tempDir();
  const device = openBenchDevice();
  for (const echo of [false, true]) {
    const path = join(dir, "model.gguf");
    await writeRolloutModel(path, shape, "BF16", echo);
    const model = loadModel(device, { path, header: headerOf(path) }, PROMPT + tokens);
    if (!echo) {
      const alone = stepTime(device, model, 1, true);
      console.log(`${alone.toFixed(0)} µs\t${name}, a step of 1 row that was queued ahead`);
      for (const rows of ROWS) {
        const us = stepTime(device, model, rows, false);
        console.log(
          `${us.toFixed(0)} µs\t${name}, a step of ${rows} rows, not ahead: ${(us / alone).toFixed(3)} steps`,
        );
      }
    }
    for (const temperature of echo ? TEMPERATURES : [1]) {
      const found = compare(device, model, { ...PLAIN, temperature, seed: 1 }, tokens);
      const text = echo ? `an echo at temperature ${temperature}` : "a text that does not repeat";
      const { plain, guessing, perStep, same, other } = found;
      console.log(
        `${(guessing / plain).toFixed(2)}×\t${name}, ${text} (${other} different tokens of ${tokens}): ${Math.round(guessing)} tok/s with guesses, ${Math.round(plain)} without; ${perStep.toFixed(2)} tokens a step; ${same ? "the same tokens" : "OTHER TOKENS"}`,
      );
    }
    model.free();
  }
  device.close();
  remove(dir);
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { shape: { type: "string", default: "0.5B" }, tokens: { type: "string", default: "512" } },
  });
  if (hasDevice()) await measure(values.shape, Number(values.tokens));
  else console.log("There is no GPU here");
}

// tier: all (trains models)
/** Rollouts by our own kernels, in emulation. */
import { toArrayBuffer } from "bun:ffi";
import { afterAll, describe, expect, test } from "bun:test";
import { copyFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { traitsOf } from "../../src/lib/training/memory_graph.ts";
import { decoderMemory } from "../../src/lib/training/memory_rollouts.ts";
import type { Ptr } from "../../src/native/ffi.ts";
import { OutOfMemory, TYPE } from "../../src/native/ggml/ggml.ts";
import type { WeightPlace, WeightPlaces } from "../../src/native/llama/weights.ts";
import { ContextOverflow } from "../../src/workers/serving/engine/types.ts";
import { architectureOf } from "../../src/workers/trainer/engine/architecture.ts";
import { readModelFile } from "../../src/workers/trainer/model_file.ts";
import { openRoller } from "../../src/workers/trainer/rollouts/roller.ts";
import type { Roller, RollerOptions } from "../../src/workers/trainer/rollouts/types.ts";
import { tempDir } from "../harness.ts";
import { type ModelOptions, makeModel } from "../models.ts";
import { canCompute, openTestDevice } from "../native/emulation/choice.ts";
import { planOf, runTraining } from "../trainer_kit.ts";
import { digest } from "./rolled.ts";
import { GRPO, loud, mean, series, TASKS } from "./tasks.ts";

const dir = tempDir();
const SHAPE: ModelOptions = { arch: "qwen2", type: "F16", width: 128, heads: 2, kvHeads: 1, context: 128 };
const SAMPLING = { temperature: 1, topP: 1, topK: 0, minP: 0, maxTokens: 6 };
const GREEDY = { ...SAMPLING, temperature: 0 };
const request = (seed: number, length: number, samples = 2) => ({
  prompt: Int32Array.from({ length }, (_, i) => 40 + ((seed * 31 + i * 17) % 50)),
  samples,
  seed,
});
const REQUESTS = [request(1, 9), request(2, 40, 3)];

describe.skipIf(!canCompute)("rollouts by our own kernels", () => {
  const device = openTestDevice();
  const path = makeModel(dir, SHAPE);
  const opened: Roller[] = [];
  afterAll(async () => {
    await Promise.all(opened.map((roller) => roller.close()));
    rmSync(dir, { recursive: true, force: true });
  });

  async function open(options: Partial<RollerOptions> = {}): Promise<Roller> {
    const size = { contextLength: 64, parallel: 4, threads: 1, gpus: [] };
    const roller = await openRoller({ dataDir: dir, modelPath: path, ...size, device, ...options });
    opened.push(roller);
    return roller;
  }
  const halves = ({ address, columns, rows }: WeightPlace) =>
    new Uint16Array(toArrayBuffer(address as Ptr, 0, columns * rows * 2));

  test("the most likely tokens and their texts are those of the library", async () => {
    const [own, library] = [await open(), await open({ kernels: false })];
    const [ours, theirs] = [await own.roll(REQUESTS, GREEDY), await library.roll(REQUESTS, GREEDY)];
    const told = (rolled: typeof ours) =>
      rolled.map((group) => group.map(({ tokens, text, truncated }) => ({ tokens: [...tokens], text, truncated })));
    expect(told(ours)).toEqual(told(theirs));
    ours.flat().forEach(({ logps }, i) => {
      logps!.forEach((logp, t) => {
        expect(Math.abs(logp - theirs.flat()[i]!.logps![t]!)).toBeLessThan(0.3); // BF16 and steep logits
      });
    });
  });

  test("weights that are merged are drawn from at once, and their old values give the old samples", async () => {
    const roller = await open();
    const first = digest(await roller.roll(REQUESTS, SAMPLING));
    const name = "blk.0.ffn_down.weight";
    const flip = (places: WeightPlaces) => {
      const numbers = halves(places(name)!);
      for (let i = 0; i < numbers.length; i++) numbers[i]! ^= 0x8000; // the sign
      return true;
    };
    expect(await roller.merge(flip)).toBe(true);
    expect(digest(await roller.roll(REQUESTS, SAMPLING))).not.toBe(first);
    await roller.merge(flip);
    expect(digest(await roller.roll(REQUESTS, SAMPLING))).toBe(first);
    expect(await roller.merge((places) => places("blk.9.ffn_down.weight") !== null)).toBe(false);
  });

  test("frozen matrices are used in place and are not counted twice", async () => {
    const whole = await open();
    const tables: (WeightPlace | null)[] = [];
    await whole.merge((places) => tables.push(places("token_embd.weight")) > 0);
    const [table = null] = tables;
    const shared = await open({ frozen: (name) => (name === "token_embd.weight" ? table : null) });
    const { columns, rows } = table!;
    expect(whole.facts.memoryBytes - shared.facts.memoryBytes).toBe(columns * rows * 2);
    expect(digest(await shared.roll(REQUESTS, SAMPLING))).toBe(digest(await whole.roll(REQUESTS, SAMPLING)));
    const other = await open({ frozen: () => ({ ...table!, type: TYPE.Q8_0 }) });
    expect(other.facts.memoryBytes).toBe(whole.facts.memoryBytes);
  });

  test("an aborted call frees its pages, and a request that does not fit is refused", async () => {
    const roller = await open();
    const first = digest(await roller.roll(REQUESTS, SAMPLING));
    for (let i = 0; i < 3; i++) {
      const given = new AbortController();
      const ended = roller.roll([request(3, 20, 9)], { ...SAMPLING, maxTokens: 40 }, given.signal).catch(String);
      given.abort(new Error("enough"));
      expect(await ended).toBe("Error: enough");
    }
    const long = await roller.roll([request(4, 64)], SAMPLING).catch((error: unknown) => error);
    expect(long).toBeInstanceOf(ContextOverflow);
    expect(digest(await roller.roll(REQUESTS, SAMPLING))).toBe(first);
  });

  test("all weights are replaced by those of another file", async () => {
    const roller = await open();
    const first = digest(await roller.roll(REQUESTS, SAMPLING));
    const other = makeModel(dir, { ...SHAPE, seed: 99 });
    await roller.reload((into) => copyFileSync(other, into));
    expect(digest(await roller.roll(REQUESTS, SAMPLING))).not.toBe(first);
    await roller.reload((into) => copyFileSync(path, into));
    expect(digest(await roller.roll(REQUESTS, SAMPLING))).toBe(first);
  });

  test("the estimate covers the decoder, and too little memory is one sentence", async () => {
    const { header } = await readModelFile(path);
    const { architecture: name, ...of } = { ...architectureOf(header), architecture: SHAPE.arch };
    const roller = await open();
    const parameters = [...header.tensors.values()].reduce((sum, { elements }) => sum + elements, 0);
    const estimate = decoderMemory({ ...of, ...traitsOf(name) }, parameters, { contextLength: 64, parallel: 4 });
    expect(roller.facts.memoryBytes).toBeLessThan(estimate * 1.02);
    expect(roller.facts.memoryBytes).toBeGreaterThan(estimate * 0.8);
    let held = 0;
    const small = {
      ...device,
      allocate(bytes: number) {
        if (bytes > 2 ** 20) throw new OutOfMemory("none");
        held++;
        return device.allocate(bytes);
      },
      free(at: number) {
        held--;
        device.free(at);
      },
    };
    const error = await open({ device: small }).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(OutOfMemory);
    expect(String(error)).toContain("4 completions of 64 tokens at once. Lower generation_batch_size");
    expect(held).toBe(0);
  });

  test("models in other precisions are drawn from by the library", async () => {
    const roller = await open({ modelPath: makeModel(dir, { ...SHAPE, type: "F32" }) });
    await expect(roller.sync(null)).resolves.toBeUndefined();
    expect(await roller.merge(() => true)).toBe(false); // an engine on the processor merges nothing
  });

  test("a training learns from them", async () => {
    const given = { ...GRPO, learning_rate: 0.003, max_steps: 9 };
    const plan = await planOf({ dir, model: path, context: 128, method: "grpo", rows: TASKS.grpo, given, lora: null });
    const checkpoints = join(dir, "checkpoints");
    const { steps, error } = await runTraining({ plan, dir, checkpoints, score: loud, sampler: { device } });
    expect(error).toBeNull();
    const rewards = series(steps, "reward");
    expect(mean(rewards.slice(-3))).toBeGreaterThan(mean(rewards.slice(0, 3)) + 0.1);
    expect(steps[0]!.values["sampling/sampling_logp_difference/mean"]).toBeLessThan(0.1);
    expect(steps[0]!.values["sampling/sampling_logp_difference/mean"]).toBeGreaterThan(0);
  }, 60_000);
});

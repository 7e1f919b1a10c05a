/** Twenty steps of supervised training on the device and on the CPU: the loss falls, and in the same way. */
import { join } from "node:path";
import type { LoraSettings } from "../../src/lib/training/lora.ts";
import { makeModel } from "../../test/models.ts";
import { planOf, runTraining } from "../../test/trainer_kit.ts";
import { converted, type FileType, type Part, percent, type Setup } from "./setup.ts";

type Case = { what: string; type: FileType; lora: Partial<LoraSettings> | null; noise?: number };
const LORA = { r: 16, alpha: 32, dropout: 0 };
const CASES: readonly Case[] = [
  { what: "an adapter on BF16", type: "BF16", lora: LORA },
  { what: "an adapter with dropout on Q8_0", type: "Q8_0", lora: { ...LORA, dropout: 0.1 } },
  { what: "an adapter on Q4_K_M", type: "Q4_K_M", lora: LORA },
  { what: "an adapter on BF16, with noise on the embeddings", type: "BF16", lora: LORA, noise: 5 },
  { what: "all weights in BF16", type: "BF16", lora: null },
];
const STEPS = 20;
const FALL = 0.8;
const APART = 0.05;

export const ROWS = Array.from({ length: 26 }, (_, i) => String.fromCharCode(97 + i)).map((prompt) => ({
  prompt: `${prompt} and ${prompt}`,
  completion: `yes, ${prompt}${prompt} it is`,
}));

export const smallModel = (setup: Setup, arch: "llama" | "qwen2" | "qwen3", type: FileType) =>
  converted(
    setup,
    makeModel(setup.dir, {
      arch,
      type: "F32",
      layers: 2,
      width: 256,
      heads: 4,
      kvHeads: 2,
      ff: 512,
      context: 256,
    }),
    type,
  );

export const learning: Part = async function* (setup) {
  for (const { what, type, lora, noise = null } of CASES) {
    const model = await smallModel(setup, "llama", type);
    const given = {
      learning_rate: lora ? 0.002 : 0.001,
      max_steps: STEPS,
      per_device_train_batch_size: 8,
      neftune_noise_alpha: noise,
    };
    const plan = await planOf({ dir: setup.dir, model, method: "sft", rows: ROWS, given, lora, context: 256 });
    const losses = async (machine: Setup["machine"], name: string) => {
      const { steps, error } = await runTraining({ plan, dir: setup.dir, checkpoints: join(setup.dir, name), machine });
      if (error) throw error;
      return steps.map(({ values }) => values["loss"] ?? Number.NaN);
    };
    const expected = await losses({ threads: setup.cpu.threads, gpus: [] }, `cpu-${Bun.hash(what)}`);
    const found = await losses(setup.machine, `device-${Bun.hash(what)}`);
    const apart = Math.max(...expected.map((loss, i) => Math.abs(found[i]! - loss))) / expected[0]!;
    const ends = (all: readonly number[]) => `${all[0]!.toFixed(3)} → ${all.at(-1)!.toFixed(3)}`;
    const value = `loss ${ends(found)}, on the CPU ${ends(expected)}, at most ${percent(apart)} of the first apart`;
    const ok = apart <= APART && found.at(-1)! < FALL * found[0]!;
    yield {
      what: `${STEPS} steps: ${what}`,
      value,
      target: `falls by a fifth, ≤ ${percent(APART)} of the first apart`,
      ok,
    };
  }
};

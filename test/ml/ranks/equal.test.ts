// tier: all (trains models)
/** Two ranks against one process: every number of the training is the same, to the bit. */
import { afterAll, expect, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isRolled, type Method } from "../../../src/lib/training/fields.ts";
import { tempDir } from "../../harness.ts";
import { planOf, runTraining, stream } from "../../trainer_kit.ts";
import { TINY } from "../rolled.ts";
import { loud, TASKS } from "../tasks.ts";
import { runRanks } from "./kit.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const LORA = { r: 4, alpha: 8, dropout: 0.1 };
const ROLLED = { num_generations: 4, per_device_train_batch_size: 16, max_completion_length: 6, temperature: 2 };
const CASES: readonly (readonly [string, Method, object | null, object])[] = [
  ["an adapter by SFT", "sft", LORA, { per_device_train_batch_size: 8 }],
  ["whole weights by SFT", "sft", null, { per_device_train_batch_size: 8 }],
  ["an adapter by DPO", "dpo", LORA, { per_device_train_batch_size: 4 }],
  ["an adapter by KTO", "kto", LORA, { per_device_train_batch_size: 8 }],
  ["an adapter by GRPO", "grpo", LORA, { ...ROLLED, beta: 0.1 }],
  ["whole weights by RLOO", "rloo", null, ROLLED],
];

test.each(CASES)(
  "%s",
  async (_name, method, lora, more) => {
    const given = { learning_rate: 0.01, max_steps: 2, ...more };
    const plan = await planOf({
      dir,
      model: TINY,
      method,
      rows: TASKS[method],
      heldOut: TASKS[method].slice(0, 6),
      lora,
      given,
    });
    plan.micro_divisor = 16; // micro-batches of 64 tokens, so that a step has several
    const run = async (ranks: number) => {
      const checkpoints = join(dir, `${method}-${lora ? "lora" : "all"}-${ranks}`);
      const options = { plan, dir, checkpoints, score: loud };
      const isAlone = ranks === 1 && !isRolled(method);
      const done = await (isAlone ? runTraining(options) : runRanks(ranks, 2, options)); // completions in two parts
      expect([done.error, done.ending]).toEqual([null, "trained"]);
      const file = (name: string) => readFileSync(join(done.checkpoints.at(-1)!.path, name)).toString("base64");
      return { steps: stream(done.steps), weights: file("weights.safetensors"), moments: file("moments.safetensors") };
    };
    const alone = await run(1);
    for (const ranks of method === "sft" ? [2, 3] : [2]) {
      const together = await run(ranks);
      expect(together.steps).toEqual(alone.steps);
      expect(together.weights === alone.weights).toBe(true);
      expect(together.moments === alone.moments).toBe(true);
    }
  },
  60_000,
);

/** Whole trainings of every family: llama.cpp samples with the adapter that the trainer learns. */
import { afterAll, expect, test } from "bun:test";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { ARCHITECTURES } from "../../src/lib/gguf/architecture.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { planOf, runTraining, scoring } from "../trainer_kit.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const NEW = ARCHITECTURES.filter((arch) => !["llama", "qwen2", "qwen3"].includes(arch)); // loop.test.ts trains these
const given = {
  learning_rate: 0.01,
  num_generations: 4,
  per_device_train_batch_size: 8,
  max_completion_length: 6,
  max_steps: 2,
};

test.each(NEW)("%s: grpo samples, learns and writes its adapter", async (arch) => {
  const layers = arch === "smollm3" ? 4 : 2;
  const model = makeModel(dir, { arch, type: "F32", width: 32, heads: 4, kvHeads: 2, ff: 64, layers, context: 64 });
  const rows = ["a", "b", "c", "d"].map((prompt) => ({ prompt }));
  const plan = await planOf({ dir, model, method: "grpo", rows, given, lora: { r: 4, alpha: 8 }, context: 64 });
  const score = scoring((text) => text.length);
  const { ending, error, steps, checkpoints } = await runTraining({ plan, dir, checkpoints: join(dir, arch), score });
  expect([ending, error]).toEqual(["trained", null]);
  for (const { values } of steps) expect(values["sampling/sampling_logp_difference/max"]).toBeLessThan(0.03);
  expect(readdirSync(checkpoints[0]!.path)).toContain("adapter.gguf");
});

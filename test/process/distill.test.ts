// tier: all (trains models on the executable)
/**
 * A student of half verk-tiny's size learns sums from verk-tiny. Beside it: SFT on the same number of the teacher's answers.
 * The student is judged in a full run alone: a few steps show that both ways run and that their results are served.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { writeHalfTiny } from "../half_tiny.ts";
import { tempDir, until } from "../harness.ts";
import { IS_FULL, sweep } from "../sweep.ts";
import { openTraining } from "./training_kit.ts";

const LONG_MS = 600_000;
const STUDENT = "half-tiny";
const dir = tempDir();
let training: Awaited<ReturnType<typeof openTraining>>;
let dataset = "";

const SUMS = Array.from({ length: 100 }, (_, i) => {
  const [a, b] = [Math.floor(i / 10), i % 10];
  return { prompt: `What is ${a} + ${b}?`, right: String(a + b) };
});

beforeAll(async () => {
  mkdirSync(join(dir, "models"), { recursive: true, mode: 0o700 });
  const sizes = await writeHalfTiny(join(dir, "models", `${STUDENT}.gguf`));
  expect(sizes.half).toBeLessThan(0.5 * sizes.tiny);
  training = await openTraining({ dir, env: { VERK_HTTP__RATE_LIMIT_PER_SECOND: "0" } });
  const { server } = training;
  const isThere = async () => (await server.call("GET", `/v1/models/${STUDENT}`)).body.status === "ready";
  await until("the student to be there", isThere, LONG_MS);
  dataset = await training.prepare((i) => ({ prompt: SUMS[i]!.prompt }), SUMS.length);
}, LONG_MS);
afterAll(async () => {
  await training?.server.kill();
  rmSync(dir, { recursive: true, force: true });
});

const SETTINGS = {
  learning_rate: 2e-3,
  max_steps: sweep({ quick: 15, full: 200 }),
  per_device_train_batch_size: 64,
  num_generations: 2,
  max_completion_length: 8,
};

async function distilled(loss: string): Promise<{ accuracy: number; seconds: number }> {
  const { call } = training;
  const id: string = await training.create(dataset, 7, {
    base_model: STUDENT,
    teacher_model: "verk-tiny",
    method: "distill",
    output_name: `sums-${loss}`,
    reward_source: undefined,
    reward_language: undefined,
    lora: null,
    checkpoint: { save_steps: 0 },
    hyperparameters: { ...SETTINGS, distillation_loss: loss },
  });
  const job = await training.ended(id, LONG_MS);
  expect([job.status, job.error]).toEqual(["completed", null]);
  const seconds = (Date.parse(job.completed_at) - Date.parse(job.started_at)) / 1000;
  await call("POST", "/deployments", { model: id, name: `sums-${loss}` });
  return { accuracy: await accuracyOf(`sums-${loss}`), seconds };
}

/** The share of sums that a deployment gets right. */
async function accuracyOf(name: string): Promise<number> {
  const { call } = training;
  await until(
    `${name} to be served`,
    async () => (await call("GET", `/deployments/${name}`)).status === "serving",
    LONG_MS,
  );
  let right = 0;
  for (const sum of SUMS) {
    const messages = [{ role: "user", content: sum.prompt }];
    const answer = await call("POST", "/chat/completions", { model: name, messages, temperature: 0, max_tokens: 8 });
    if (answer.choices[0].message.content.trim() === sum.right) right++;
  }
  return right / SUMS.length;
}

test(
  "a student of half the size learns sums from its teacher, by distances and by its answers",
  async () => {
    await training.call("POST", "/deployments", { model: "verk-tiny", name: "teacher" });
    await training.call("POST", "/deployments", { model: STUDENT, name: "before" });
    const [teacher, before] = [await accuracyOf("teacher"), await accuracyOf("before")];
    const [soft, hard] = [await distilled("forward_kl"), await distilled("hard")];
    console.log(JSON.stringify({ teacher, before, soft, hard }));
    expect(teacher).toBeGreaterThan(0.95);
    expect(before).toBeLessThan(0.3);
    if (!IS_FULL) return;
    expect(soft.accuracy).toBeGreaterThanOrEqual(0.9 * teacher);
    expect(hard.accuracy).toBeGreaterThan(before);
  },
  3 * LONG_MS,
);

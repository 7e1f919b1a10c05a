// tier: all (trains models)
/**
 * A trainer that stands still (SIGSTOP, a frozen machine, a debugger). Below `workers.silence_ms` nothing happens. Beyond
 * it the server ends the process, and the job goes on from its newest checkpoint with the same numbers.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { violations } from "../fault/invariants.ts";
import { tempDir, until } from "../harness.ts";
import { openTraining, VOWELS } from "./training_kit.ts";

const dir = tempDir();
const SEED = 20_260_102;
const LONG_MS = 120_000;
const SILENCE_MS = 4_000;
const STEPS = 6;

/** Slow code: a trainer that waits for its scores sends heartbeats, and its silence counts at once. */
const SLOW = VOWELS.replace("{\n", "{\n  let x = 1; for (let i = 0; i < 2e6; i++) x = (x * 48271) % 2147483647;\n");
const hyperparameters = {
  max_steps: STEPS,
  num_generations: 4,
  per_device_train_batch_size: 8,
  max_completion_length: 12,
  learning_rate: 1e-3,
};

let on: Awaited<ReturnType<typeof openTraining>>;
let dataset: string;
const create = () => on.create(dataset, SEED, { hyperparameters, reward_source: SLOW, checkpoint: { save_steps: 1 } });

beforeAll(async () => {
  const env = { VERK_TRAINING__THREADS: "1", VERK_HTTP__RATE_LIMIT_PER_SECOND: "0" };
  on = await openTraining({ dir, env: { ...env, VERK_WORKERS__SILENCE_MS: String(SILENCE_MS) } });
  dataset = await on.prepare();
}, LONG_MS);
afterAll(async () => {
  await on.server.kill();
  expect(violations(dir)).toEqual([]);
  rmSync(dir, { recursive: true, force: true });
});

const stateOf = (pid: number) => {
  try {
    return /^State:\s+(\w)/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
  } catch {
    return undefined; // it has ended
  }
};
const isGone = (pid: number) => [undefined, "Z", "X"].includes(stateOf(pid));

function signal(pid: number, name: "SIGSTOP" | "SIGCONT") {
  try {
    process.kill(pid, name);
  } catch {} // it has ended
}

const stepOf = async (id: string): Promise<number> => (await on.call("GET", `/training_jobs/${id}`)).progress.step;
const trainer = () => until("a trainer", () => on.trainerPid(), LONG_MS);
const requeuesOf = async (id: string): Promise<string[]> => {
  const { data } = await on.call("GET", `/training_jobs/${id}/events?limit=100`);
  const found = (data as { type: string; message: string }[]).filter(({ type }) => type === "job.requeued");
  return found.map(({ message }) => message);
};

let undisturbed: Awaited<ReturnType<typeof on.streamOf>>;

test("stops that are shorter than the limit change nothing", async () => {
  const id = await create();
  const pid = await trainer();
  for (let step = 0; step < STEPS; step++) {
    await until(`step ${step}`, async () => (await stepOf(id)) >= step || isGone(pid) || undefined, LONG_MS);
    signal(pid, "SIGSTOP");
    await until("it to stand still", () => stateOf(pid) === "T" || isGone(pid) || undefined, LONG_MS);
    signal(pid, "SIGCONT");
  }
  expect(await on.ended(id)).toMatchObject({ status: "completed", error: null, progress: { step: STEPS } });
  expect(await requeuesOf(id)).toEqual([]);
  undisturbed = await on.streamOf(id);
  expect(undisturbed.map(({ step }) => step)).toEqual(Array.from({ length: STEPS }, (_, i) => i + 1));
}, 180_000);

test("a trainer that stands still is ended, and the job goes on from its checkpoint without a step twice", async () => {
  const id = await create();
  await until("a checkpoint", async () => (await stepOf(id)) >= 1 || undefined, LONG_MS);
  // A step may announce a long silence; then the stop has no effect, and the next step is tried.
  for (let isNoticed = false; !isNoticed; ) {
    const pid = await trainer();
    const before = await stepOf(id);
    expect(before).toBeLessThan(STEPS);
    signal(pid, "SIGSTOP");
    isNoticed = await until("the limit", () => isGone(pid) || undefined, 2 * SILENCE_MS).catch(() => false);
    signal(pid, "SIGCONT");
    if (!isNoticed) await until("the next step", async () => (await stepOf(id)) > before || undefined, LONG_MS);
  }
  expect(await on.ended(id)).toMatchObject({ status: "completed", error: null, progress: { step: STEPS } });
  expect(await requeuesOf(id)).toEqual([expect.stringContaining(`said nothing for ${SILENCE_MS} ms`)]);
  expect(await on.streamOf(id)).toEqual(undisturbed);
}, 300_000);

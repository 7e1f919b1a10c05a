// tier: all (trains models)
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { violations } from "../fault/invariants.ts";
import { tempDir, until } from "../harness.ts";
import { randomFor, sweep } from "../sweep.ts";
import { trainingCalls } from "./training_kit.ts";

/**
 * Training in the executable, on the built-in model: whatever is killed, a job completes, and its losses and rewards
 * equal those of an undisturbed run.
 */
const dir = tempDir();
const KILLS = sweep({ quick: 2, full: 50 });
const SEED = 20_260_101;
let server: Awaited<ReturnType<typeof startBinary>>;
let key: string;
let dataset: string;

const env = { VERK_TRAINING__THREADS: "1", VERK_HTTP__RATE_LIMIT_PER_SECOND: "0" };

const { call, prepare, ended, streamOf, trainerPid, ...jobs } = trainingCalls(() => server);
const create = (changes: object = {}) => jobs.create(dataset, SEED, changes);

beforeAll(async () => {
  ({ key } = await makeKey(dir));
  server = await startBinary({ dir, env, key });
  dataset = await prepare();
}, 90_000);
afterAll(async () => {
  await server.kill();
  expect(violations(dir)).toEqual([]);
  rmSync(dir, { recursive: true, force: true });
});

/** The first job, which nothing disturbed. */
let calm: { id: string; wholeMs: number };
let undisturbed: Awaited<ReturnType<typeof streamOf>>;

test("a job runs to its end, and the same seed gives the same stream", async () => {
  const [first, second] = [await create(), await create()];
  const job = await ended(first);
  expect(job).toMatchObject({ status: "completed", error: null, progress: { step: 10, percent: 100 } });
  calm = { id: first, wholeMs: Date.parse(job.completed_at) - Date.parse(job.started_at) };
  expect(await ended(second)).toMatchObject({ status: "completed" });
  undisturbed = await streamOf(first);
  expect(undisturbed.length).toBe(10);
  expect(new Set(undisturbed.map(({ values }) => values["reward"])).size).toBeGreaterThan(3);
  expect(await streamOf(second)).toEqual(undisturbed);
}, 180_000);

test(`${KILLS} times kill -9 of the trainer at random moments: every job ends completed, with the identical stream`, async () => {
  const random = randomFor("trainer kills");
  let kills = 0;
  while (kills < KILLS) {
    const id = await create();
    const over = ended(id);
    let isOver = false;
    void over.finally(() => {
      isOver = true;
    });
    while (!isOver && kills < KILLS) {
      const pid = await until("a trainer, or the end", () => (isOver ? -1 : trainerPid()), 60_000);
      if (pid < 0) break;
      const wait = Promise.withResolvers<void>();
      setTimeout(wait.resolve, random() * calm.wholeMs); // the moment is random, not awaited
      await Promise.race([wait.promise, over]);
      if (isOver) break;
      try {
        process.kill(pid, "SIGKILL");
        kills++;
      } catch {} // ended by itself
    }
    expect(await over).toMatchObject({ status: "completed", error: null });
    expect(await streamOf(id)).toEqual(undisturbed);
  }
}, 600_000);

test("kill -9 of the server: the job resumes from its newest checkpoint after the restart", async () => {
  const id = await create();
  await until("a checkpoint", async () => {
    const { data } = await call("GET", `/training_jobs/${id}/checkpoints`);
    return data.length > 0 ? data : undefined;
  });
  await server.kill("SIGKILL");
  server = await startBinary({ dir, env, key });
  expect(await ended(id)).toMatchObject({ status: "completed", error: null });
  expect(await streamOf(id)).toEqual(undisturbed);
  const { data } = await call("GET", `/training_jobs/${id}/events`);
  expect(data.map(({ type }: { type: string }) => type)).toContain("job.requeued");
}, 180_000);

test("D9 kill -9 of a server that is behind: steps whose messages it never read are in the checkpoints", async () => {
  const form = new FormData();
  form.set("name", "pairs");
  const rows = Array.from({ length: 24 }, (_, i) => JSON.stringify({ prompt: `${i}+1=`, completion: `${i + 1}` }));
  form.set("file", new File([`${rows.join("\n")}\n`], "pairs.jsonl"));
  const pairs = (await call("POST", "/datasets", form)).id;
  const hyperparameters = { max_steps: 60, per_device_train_batch_size: 2, max_length: 32 };
  const sft = { method: "sft", dataset: pairs, reward_source: null, reward_language: null, hyperparameters };
  const id = await create({ ...sft, checkpoint: { save_steps: 5, keep_last: 3 } });
  await until("a step", async () => (await call("GET", `/training_jobs/${id}`)).progress.step > 0 || undefined, 60_000);
  process.kill(server.pid, "SIGSTOP"); // reads no message from now on
  const names = () => readdirSync(join(dir, "jobs", id, "checkpoints")).filter((name) => name.startsWith("step-"));
  const before = names().length;
  await until("two more checkpoints", () => names().length >= before + 2, 60_000);
  await server.kill("SIGKILL");
  server = await startBinary({ dir, env, key });
  expect(await ended(id)).toMatchObject({ status: "completed", error: null });
  expect((await streamOf(id)).map(({ step }) => step)).toEqual(Array.from({ length: 60 }, (_, i) => i + 1));
  const { data } = await call("GET", `/training_jobs/${id}/events?limit=100`);
  const saved = (data as { type: string; data: { step: number } }[]).filter(({ type }) => type === "checkpoint");
  expect(saved.map((event) => event.data.step).reverse()).toEqual(Array.from({ length: 12 }, (_, i) => 5 * (i + 1)));
}, 180_000);

test("the deployment of a job answers with the trained model", async () => {
  const { id: deployment } = await call("POST", "/deployments", { model: calm.id, name: "trained" });
  await until(
    "it to serve",
    async () => (await call("GET", `/deployments/${deployment}`)).status === "serving" || undefined,
    60_000,
  );
  const answer = await call("POST", `/deployments/${deployment}/chat/completions`, {
    model: "trained",
    messages: [{ role: "user", content: "What is 2 + 3?" }],
    max_tokens: 8,
    temperature: 0,
  });
  expect(answer.choices[0].message.content.length).toBeGreaterThan(0);
}, 180_000);

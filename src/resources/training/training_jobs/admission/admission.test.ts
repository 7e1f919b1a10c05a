import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { tarGz } from "../../../../../test/archives.ts";
import { type JobsApp, jobsApp, SCORES } from "../../../../../test/jobs_kit.ts";
import { isRolled } from "../../../../lib/training/fields.ts";
import { datasetPins, datasetSnapshots } from "../../../data/datasets/table.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import * as billing from "../../../money/billing/service.ts";
import { models } from "../../../serving/models/table.ts";
import { trainingJobs } from "../table.ts";

let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp({ flags: { "billing.local_rate_usd_per_hour": -1 } });
}, 60_000);
afterAll(() => app.close().then(app.remove));

type Case = [name: string, body: object, status: number, param: string, words: RegExp];
const none = "none_00000000000000000000000000";
const CASES: Case[] = [
  ["no method", { method: undefined }, 422, "/method", /grpo, rloo, distill, sft, dpo, kto, orpo or custom/],
  ["an unknown method", { method: "ppo" }, 422, "/method", /grpo/],
  ["no model", { base_model: undefined }, 422, "/base_model", /is missing/],
  ["a model that is not here", { base_model: "nothing" }, 404, "/base_model", /on this server/],
  ["a student without a teacher", { method: "distill" }, 422, "/teacher_model", /is missing/],
  ["a teacher for grpo", { teacher_model: "random" }, 422, "/teacher_model", /only for the method distill/],
  [
    "a teacher that is not here",
    { method: "distill", teacher_model: "none" },
    404,
    "/teacher_model",
    /No model "none"/,
  ],
  [
    "groups with equal rewards, where there are no rewards",
    {
      method: "distill",
      teacher_model: "random",
      reward_source: null,
      hyperparameters: { dynamic_sampling: true },
    },
    422,
    "/hyperparameters/dynamic_sampling",
    /needs rewards/,
  ],
  ["no dataset", { dataset: undefined }, 422, "/dataset", /is missing/],
  [
    "F25 a name that no dataset has",
    { dataset: "rows.jsonl" },
    404,
    "/dataset",
    /No dataset "rows.jsonl".*rows.jsonl@snap-3/,
  ],
  ["a dataset that is not here", { dataset: `ds_${"0".repeat(26)}` }, 404, "/dataset", /No dataset/],
  [
    "another held-out dataset that is not here",
    { eval_dataset: `ds_${"0".repeat(26)}` },
    404,
    "/eval_dataset",
    /No da/,
  ],
  ["two datasets", { dataset_id: `ds_${"0".repeat(26)}` }, 422, "/dataset_id", /differs from dataset/],
  ["no reward", { reward_source: null }, 422, "/reward_source", /is missing/],
  ["code that is rejected", { reward_source: "export const broken" }, 422, "/reward_source", /line \d+/],
  [
    "a language that cannot be detected",
    { reward_source: "1" },
    422,
    "/reward_language",
    /python, typescript or javascript/,
  ],
  ["a reward function that is not here", { reward_functions: [{ id: "nope" }] }, 404, "/reward_functions/0/id", /nope/],
  [
    "a weight of nothing",
    { reward_source: null, reward_functions: [{ id: "exact_match", weight: 0 }] },
    422,
    "/reward_functions",
    /weight other than 0/,
  ],
  [
    "a typo",
    { hyperparameters: { lerning_rate: 1 } },
    422,
    "/hyperparameters/lerning_rate",
    /Did you mean learning_rate/,
  ],
  ["a value out of range", { hyperparameters: { temperature: 0 } }, 422, "/hyperparameters/temperature", /more than 0/],
  [
    "drawing otherwise than from the model",
    { hyperparameters: { repetition_penalty: 1.2 } },
    422,
    "/hyperparameters/repetition_penalty",
    /must be 1/,
  ],
  ["another method's setting", { hyperparameters: { packing: true } }, 422, "/hyperparameters/packing", /sft/],
  [
    "groups that do not fit",
    { hyperparameters: { num_generations: 3, per_device_train_batch_size: 4 } },
    422,
    "/hyperparameters/num_generations",
    /must divide/,
  ],
  [
    "more than the context",
    { hyperparameters: { max_completion_length: 4096 } },
    422,
    "/hyperparameters/max_completion_length",
    /512 tokens/,
  ],
  ["a typo in lora", { lora: { rank: 4, r: 4 } }, 422, "/lora/rank", /Did you mean r\?/],
  [
    "F22 a setting of lora twice",
    { lora: { lora_alpha: 4, alpha: 4 } },
    422,
    "/lora/lora_alpha",
    /another name of alpha/,
  ],
  ["a value of lora out of range", { lora: { r: 0 } }, 422, "/lora/r", /at least 1/],
  [
    "a GPU that this machine does not have",
    { gpu: { gpu_type: "H100" } },
    422,
    "/gpu/gpu_type",
    /this machine has cpu/,
  ],
  ["more devices than there are", { gpu: { gpu_count: 4 } }, 422, "/gpu/gpu_count", /has 1 of type cpu/],
  ["a provider elsewhere", { provider: "moon" }, 422, "/provider", /local/],
  ["a checkpoint that is not here", { resume_from: none }, 404, "/resume_from", /No checkpoint/],
  ["a job that is not here", { source_job: none }, 404, "/source_job", /No training job/],
  ["a secret for grpo", { secrets: ["TOKEN"] }, 422, "/secrets", /only for the method custom/],
  ["a volume for grpo", { volumes: [{ name: "v", mount_path: "/v" }] }, 422, "/volumes", /only for the method custom/],
  ["variables for grpo", { env: { A: "b" } }, 422, "/env", /reward code and data resolvers cannot use it/],
  ["a network for grpo", { network: "guarded" }, 422, "/network", /leave it out/],
  ["limits for grpo", { resources: { memory_mib: 64 } }, 422, "/resources", /only for the method custom/],
  [
    "a place that is taken",
    { volumes: [{ name: "v", mount_path: "/etc/x" }] },
    422,
    "/volumes/0/mount_path",
    /would hide/,
  ],
  ["code for grpo", { code_artifact_id: none }, 422, "/code_artifact_id", /custom/],
  ["a command for grpo", { command: "true" }, 422, "/command", /custom/],
  [
    "a custom job without code",
    { method: "custom", reward_source: null, command: "true" },
    422,
    "/code_artifact_id",
    /upload/,
  ],
  ["the form of a push without its place", { hub_variant: "gguf" }, 422, "/hub_repo", /is missing/],
  [
    "the adapter of a job without one",
    { hub_repo: "acme/new", hub_variant: "adapter", lora: null },
    422,
    "/hub_variant",
    /has no adapter/,
  ],
  ["too long a run", { max_runtime_minutes: 1e6 }, 422, "/max_runtime_minutes", /training.max_runtime_minutes/],
  ["a seed that is too large", { seed: 2 ** 31 }, 422, "/seed", /2147483647/],
];

describe("an invalid request is refused and leaves nothing behind", () => {
  test.each(CASES)("%s", async (_name, more, status, param, words) => {
    const before = app.ctx.db.select().from(datasetPins).all().length;
    const answer = await app.post(more);
    expect([answer.status, answer.body.error?.param]).toEqual([status, param]);
    expect(answer.body.error.message).toMatch(words);
    expect(app.ctx.db.select().from(datasetPins).all()).toHaveLength(before);
    expect(app.ctx.db.select().from(trainingJobs).all()).toEqual([]);
  });

  test.each([
    ["sft", "prompt"],
    ["sft", "preference"],
    ["dpo", "chat"],
    ["grpo", "preference"],
    ["rloo", "preference"],
    ["kto", "preference"],
    ["orpo", "completion"],
  ] as const)("%s does not learn from rows of the format %s", async (method, format) => {
    const more = { method, dataset: await app.dataset(format), ...(isRolled(method) ? {} : { reward_source: null }) };
    const { status, body } = await app.post(more);
    expect([status, body.error.param]).toEqual([422, "/dataset"]);
    expect(body.error.message).toContain(`are ${format}`);
  });

  test("as many rewards as the server has processes: one is kept for other workspaces", async () => {
    const { processes } = app.ctx.config.sandbox;
    const reward_functions = Array.from({ length: processes }, () => ({ id: "exact_match" }));
    const { status, body } = await app.post({ reward_source: null, reward_functions });
    expect([status, body.error.param]).toEqual([422, "/reward_functions"]);
    expect(body.error.message).toContain(`may use ${processes - 1} of the ${processes} reward processes`);
    const dry = await app.post({ reward_source: null, reward_functions, dry_run: true });
    expect(dry.body.errors).toHaveLength(1);
  });

  test("a dataset without rows", async () => {
    const { body } = await app.call("POST", "/v1/datasets", { name: "empty", format: "prompt" });
    const refused = await app.post({ dataset: body.id });
    expect([refused.status, refused.body.error.param, refused.body.error.message]).toEqual([
      422,
      "/dataset",
      "dataset: has no rows",
    ]);
    expect(app.ctx.db.select().from(datasetPins).all()).toEqual([]);
  });

  test("a missing snapshot", async () => {
    const dataset = `${await app.dataset("prompt")}@snap-99`;
    const { status, body } = await app.post({ dataset });
    expect([status, body.error.param]).toEqual([404, "/dataset"]);
    const held = await app.post({ eval_dataset: dataset });
    expect([held.status, held.body.error.param]).toEqual([404, "/eval_dataset"]);
    expect(app.ctx.db.select().from(datasetPins).all()).toEqual([]);
  });

  test("an adapter without its base, and a model that failed", async () => {
    const set = (patch: object) => app.ctx.db.update(models).set(patch).where(eq(models.name, "random")).run();
    const row = app.ctx.db.select().from(models).where(eq(models.name, "random")).get()!;
    set({ shape: { ...row.shape!, type: "adapter" } });
    expect((await app.post()).body.error.message).toContain("its base model is not on this server");
    set({ shape: { ...row.shape!, architecture: "rwkv" } });
    expect((await app.post()).body.error.message).toContain("which is only served; llama, qwen2, qwen3, mistral3");
    app.ctx.db.$client.run("UPDATE models SET status = 'failed', error = 'it is damaged' WHERE name = 'random'");
    expect((await app.post()).body.error).toMatchObject({
      param: "/base_model",
      message: expect.stringMatching(/failed: it is damaged/),
    });
    app.ctx.db.$client.run("UPDATE models SET status = 'ready', error = NULL WHERE name = 'random'");
    set({ shape: row.shape });
  });

  test("a job that is larger than the device, with both numbers", async () => {
    const row = app.ctx.db.select().from(models).where(eq(models.name, "random")).get()!;
    const shape = { ...row.shape!, weight_bytes: 1e15, parameters: 5e14, layers: 10_000, embedding_length: 65_536 };
    app.ctx.db.update(models).set({ shape }).where(eq(models.name, "random")).run();
    const { status, body } = await app.post();
    expect([status, body.error.param]).toEqual([422, "/hyperparameters"]);
    expect(body.error.message).toMatch(/takes [\d.]+ [TP]iB, and a device of type cpu can give [\d.]+ GiB/);
    app.ctx.db.update(models).set({ shape: row.shape }).where(eq(models.name, "random")).run();
  });

  test("a workspace without credit gets 402", async () => {
    billing.grant(app.ctx, { workspaceId: app.workspaceA, usd: -100 });
    expect((await app.post()).body.error).toMatchObject({ type: "billing_error", code: "insufficient_credits" });
    expect((await app.post({ dry_run: true })).body.errors).toEqual([
      expect.objectContaining({ code: "insufficient_credits" }),
    ]);
    const own = { method: "custom", base_model: undefined, reward_source: null, dataset: undefined, command: "true" };
    expect((await app.post(own)).body.error).toMatchObject({ code: "insufficient_credits" });
    billing.grant(app.ctx, { workspaceId: app.workspaceA, usd: 100 });
  });
});

test("things of another workspace are not found", async () => {
  const body = await app.request();
  const stranger = await app.call("POST", "/v1/training_jobs", body, { key: app.keyB });
  expect([stranger.status, stranger.body.error.param]).toEqual([404, "/dataset"]);
});

test("a dry run collects everything that is wrong", async () => {
  const { status, body } = await app.post({
    dry_run: true,
    hyperparameters: { lerning_rate: 1, temperature: 0 },
    lora: { r: 0 },
    provider: "moon",
    reward_source: "export const broken",
  });
  expect(status).toBe(200);
  expect(body).toMatchObject({ object: "training_job.validation", valid: false, resolved_hyperparameters: null });
  expect(body.errors.map((each: { param: string }) => each.param).sort()).toEqual([
    "/hyperparameters/lerning_rate",
    "/hyperparameters/temperature",
    "/lora/r",
    "/provider",
    "/reward_source",
  ]);
});

test("a dry run cuts no snapshot and pins nothing", async () => {
  const before = app.ctx.db.select().from(datasetSnapshots).all().length;
  const { body } = await app.call("POST", "/v1/training_jobs/validate", await app.request({ method: "custom" }));
  expect(body.valid).toBe(false);
  await app.post({ dry_run: true, hyperparameters: { num_generations: 3, per_device_train_batch_size: 4 } });
  expect(app.ctx.db.select().from(datasetSnapshots).all()).toHaveLength(before);
  expect(app.ctx.db.select().from(datasetPins).all()).toEqual([]);
  expect(app.ctx.db.select().from(trainingJobs).all()).toEqual([]);
});

test("P3 base_model: a custom job has code and a command, and custom where others have their model", async () => {
  const form = new FormData();
  form.set("file", new Blob([tarGz({ name: "main.sh", content: "true" })]), "code.tar.gz");
  const { body: code } = await app.call("POST", "/v1/code_artifacts", undefined, { raw: form });
  const own = { method: "custom", base_model: undefined, reward_source: null, dataset: undefined };
  const made = await app.post({ ...own, code_artifact_id: code.id, command: "sh main.sh" });
  expect(made.status).toBe(201);
  expect(made.body).toMatchObject({
    base_model: "custom",
    dataset: null,
    lora: null,
    command: "sh main.sh",
    hyperparameters: {},
  });
  const refused = await app.post({ ...own, code_artifact_id: none, command: "x", hyperparameters: { beta: 1 } });
  expect(refused.body.error.param).toBe("/code_artifact_id");
});

test("with several devices the machine's first kind is used", async () => {
  const card = { index: 0, uuid: "GPU-1", type: "H200", name: "H200", memoryTotalMib: 140_000, memoryUsedMib: 0 };
  const idle = { utilizationPercent: 0, temperatureCelsius: 30, powerWatts: 70 };
  gpu.useProbe(app.ctx, async () => [{ ...card, ...idle } as never]);
  const { body } = await app.post({ reward_source: SCORES });
  expect(body.gpu_requested).toEqual({ type: "H200", count: 1 });
  gpu.useProbe(app.ctx, async () => []);
});

test("credit below the estimate is 402, unless max_cost_usd is lower", async () => {
  billing.grant(app.ctx, { workspaceId: app.workspaceA, usd: -99.99999 });
  const long = { hyperparameters: { max_steps: 10_000_000 } };
  const { status, body } = await app.post(long);
  expect([status, body.error.code]).toEqual([402, "insufficient_credits"]);
  expect(body.error.message).toMatch(/has \$0\.000010 left, and this costs about \$[\d.]+: ask the operator/);
  const made = await app.post({ ...long, max_cost_usd: 0.00001 });
  expect(made.status).toBe(201);
  await app.call("POST", `/v1/training_jobs/${made.body.id}/cancel`);
  billing.grant(app.ctx, { workspaceId: app.workspaceA, usd: 99.99999 });
});

test("a student learns from a teacher, with or without rewards; a clone keeps the teacher, another method does not", async () => {
  const distill = { method: "distill", teacher_model: "random" };
  const { status, body } = await app.post({ ...distill, reward_source: null });
  expect(status).toBe(201);
  expect(body).toMatchObject({ ...distill, reward_source: null, headline_metric: null });
  expect(body.lock.teacher_sha256).toBe(body.lock.base_model_sha256);
  const alone = await app.post({ hyperparameters: { num_generations: 2 } });
  expect(body.memory_bytes).toBeGreaterThan(alone.body.memory_bytes);
  expect((await app.post(distill)).body.reward_source).toBe(SCORES);
  const clone = await app.call("POST", "/v1/training_jobs", { source_job: body.id });
  expect([clone.status, clone.body.method]).toEqual([201, "distill"]);
  expect(clone.body.lock.teacher_sha256).toBe(body.lock.teacher_sha256);
  const other = { source_job: body.id, method: "grpo", reward_source: SCORES };
  expect((await app.call("POST", "/v1/training_jobs", other)).body).toMatchObject({
    method: "grpo",
    teacher_model: null,
  });
});

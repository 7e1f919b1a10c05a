import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runVerk } from "../cli.ts";
import { tempDir } from "../harness.ts";

const root = tempDir();
type Json = Record<string, unknown>;

const record = (more: Json = {}): Json => ({
  id: "job_1",
  object: "training_job",
  status: "running",
  method: "grpo",
  base_model: "verk-tiny",
  output_name: "sums",
  progress: { step: 0, total_steps: 4, percent: 0, eta_seconds: null },
  latest_metrics: {},
  error: null,
  queue_position: null,
  queue_reason: null,
  created_at: "2026-01-01T00:00:00.000Z",
  started_at: "2026-01-01T00:00:00.000Z",
  completed_at: null,
  ...{ gpu: null, dataset: null, eval_dataset: null, hyperparameters: { beta: 0 }, lora: null, reward_language: null },
  ...{ reward_functions: [], seed: 7, resume_from: null, best_checkpoint_id: null, pause_reason: null },
  ...{ cost_usd: 0, energy_wh: null },
  ...more,
});
const at = (step: number, more: Json = {}) => ({
  progress: { step, total_steps: 4, percent: 25 * step, eta_seconds: 9 },
  ...more,
});
const OVER = { status: "completed", completed_at: "2026-01-01T00:00:30.000Z" };

/** The routes as the command line uses them, with answers that the tests choose. */
const state = { sent: [] as { path: string; body: unknown }[], looks: [] as Json[], file: "weights", talks: false };
const events = (...all: [string, Json][]) =>
  all.map(([event, data]) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join("");
const line = (seq: number, text: string, time = "t") =>
  ["log", { seq, time, stream: "stdout", line: text }] as [string, Json];
/**
 * The log of a job that writes all the time: what it wrote so far, then lines of tomorrow, as fast as they are read.
 */
async function* talk() {
  yield events(["status", {}], line(1, "one"), line(2, "two", new Date(0).toISOString()));
  for (let seq = 3; ; seq++) yield events(line(seq, "more", new Date(Date.now() + 86_400_000).toISOString()));
}

const fake = Bun.serve({
  port: 0,
  async fetch(request) {
    const { pathname, searchParams, origin } = new URL(request.url);
    const path = `${request.method} ${pathname}`;
    if (path === "GET /file") return new Response(state.file);
    const text = await request.text();
    const body: unknown = text.startsWith("{") ? JSON.parse(text) : text;
    if (request.method !== "GET") state.sent.push({ path, body });
    switch (path) {
      case "POST /v1/datasets":
        return Response.json({
          id: "ds_1",
          object: "dataset",
          name: "sums",
          num_rows: 2,
          format: "prompt",
          size_bytes: 9,
        });
      case "POST /v1/reward_functions": {
        const { name } = body as { name: string };
        const made = { id: `rf_${name}`, object: "reward_function", name, version: 1, error: null, entrypoints: [] };
        return Response.json(made, { status: 201 });
      }
      case "POST /v1/training_jobs":
        return Response.json(record({ status: "queued" }), { status: 201 });
      case "POST /v1/training_jobs/validate": {
        const errors =
          (body as Json)["method"] === "grpo" ? [] : [{ code: "x", message: "no such method", param: "/method" }];
        const estimate = { vram_bytes_peak: 2 ** 20, duration_seconds: 60, cost_usd: null };
        const reward_preview = { mean: 0.5, std: 0.5, frac_zero_std: 0.25, latency_ms_p50: 1, samples: [] };
        const object = "training_job.validation";
        return Response.json({ object, valid: errors.length === 0, errors, warnings: [], estimate, reward_preview });
      }
      case "GET /v1/training_jobs":
        return Response.json({ object: "list", data: [record({ latest_metrics: { reward: 0.5 } })], has_more: false });
      case "GET /v1/training_jobs/job_1":
        return Response.json(record(state.looks.length > 1 ? state.looks.shift() : state.looks[0]));
      case "GET /v1/training_jobs/job_1/metrics": {
        const all = [1, 2, 3, 4].map((step) => ({ step, values: { reward: step / 4, loss: 0.1 } }));
        const [from, to] = ["from_step", "to_step"].map((name) => Number(searchParams.get(name)));
        const data = all.filter(({ step }) => step >= (from ?? 0) && step <= (to ?? 0));
        return Response.json({ object: "training_job.metrics", data });
      }
      case "GET /v1/training_jobs/job_1/events": {
        const data = [
          { created_at: "t2", level: "warn", message: "two" },
          { created_at: "t1", level: "info", message: "one" },
        ];
        return Response.json({ object: "list", data, has_more: false });
      }
      case "GET /v1/training_jobs/job_1/logs":
        if (state.talks) return new Response(talk as unknown as ReadableStream);
        return new Response(events(["status", {}], line(1, "one"), line(2, "two"), ["end", {}]));
      case "GET /v1/training_jobs/job_1/model": {
        const sha256 = new Bun.CryptoHasher("sha256").update("weights").digest("hex");
        return Response.json({
          object: "model_download",
          status: "ready",
          step: 4,
          url: `${origin}/file`,
          size_bytes: 7,
          sha256,
        });
      }
      case "DELETE /v1/training_jobs/job_1":
        return Response.json({ id: "job_1", object: "training_job", deleted: true });
    }
    const [, action] = /^POST \/v1\/training_jobs\/job_1\/(\w+)$/.exec(path) ?? [];
    if (action) return Response.json(record({ status: `${action}ed` }));
    return Response.json(
      { error: { type: "x", code: "resource_not_found", message: `No ${path}`, param: null } },
      { status: 404 },
    );
  },
});

beforeEach(() => Object.assign(state, { sent: [], looks: [{}], file: "weights", talks: false }));
afterAll(() => {
  fake.stop(true);
  rmSync(root, { recursive: true, force: true });
});

const env = { VERK_URL: fake.url.origin, VERK_API_KEY: "vk_test" };
const verk = (...args: string[]) => runVerk(["jobs", ...args], { cwd: root, env });

describe("verk jobs create", () => {
  test("uploads the rows, sends the reward's code and watches to the end", async () => {
    writeFileSync(join(root, "sums.jsonl"), '{"prompt":"1+1?"}\n{"prompt":"1+2?"}\n');
    writeFileSync(
      join(root, "right.py"),
      "def reward(completions, **kwargs):\n    return [1.0 for _ in completions]\n",
    );
    state.looks = [at(0, { status: "provisioning" }), at(1), at(2), at(4, OVER)];
    const flags = [
      "--model",
      "verk-tiny",
      "--method",
      "grpo",
      "--set",
      "learning_rate=1e-4",
      "--lora",
      "r=8",
      "--seed",
      "7",
    ];
    const said = await verk(
      "create",
      ...flags,
      "--dataset",
      "sums.jsonl",
      "--reward",
      "right.py",
      "--reward",
      "brevity:0.5",
      "--watch",
    );
    expect([said.code, said.out]).toEqual([0, "job_1\n"]);
    expect(said.err).toContain(
      "sums.jsonl is uploaded as dataset ds_1 (2 rows).\nprovisioning: the trainer is loading the model\n",
    );
    expect(said.err).toContain("running  step 2/4  reward 0.5  loss 0.1  9 s left\n");
    expect(said.err).toEndWith("sums (job_1) completed after 30 s, reward 0.25 → 1\n");
    expect(state.sent.at(-1)?.body).toEqual({
      base_model: "verk-tiny",
      method: "grpo",
      dataset: "ds_1",
      seed: 7,
      hyperparameters: { learning_rate: 1e-4 },
      lora: { r: 8 },
      reward_source: expect.stringContaining("def reward"),
      reward_language: "python",
      reward_functions: [{ id: "brevity", weight: 0.5 }],
    });
  });

  test("F24 several reward files, or one with a weight: each is uploaded, and the job names them", async () => {
    writeFileSync(join(root, "right.py"), "def reward(completions, **kwargs):\n    return [1.0]\n");
    writeFileSync(join(root, "short.ts"), "export const reward = () => [1];\n");
    const flags = ["--model", "verk-tiny", "--method", "grpo", "--dataset", "ds_7"];
    const said = await verk(
      "create",
      ...flags,
      "--reward",
      "right.py",
      "--reward",
      "short.ts:0.5",
      "--reward",
      "brevity",
    );
    expect([said.code, said.err]).toEqual([0, expect.any(String)]);
    expect(said.err).toContain("right.py is uploaded as reward function right@1.\nshort.ts is uploaded");
    const [first, second, job] = state.sent.map(({ body }) => body as Json);
    expect([first?.["name"], second?.["name"], second?.["language"]]).toEqual(["right", "short", "typescript"]);
    expect(job?.["reward_functions"]).toEqual([
      { id: "rf_right", weight: 1 },
      { id: "rf_short", weight: 0.5 },
      { id: "brevity", weight: 1 },
    ]);
    expect(job).not.toHaveProperty("reward_source");
  });

  test("takes a body from a file, with flags over it, and prints the id", async () => {
    writeFileSync(join(root, "job.json"), '{"method":"sft","base_model":"verk-tiny","dataset":"ds_7"}');
    const { code, out, err } = await verk("create", "--file", "job.json", "--output", "mine");
    expect([code, out, err]).toEqual([0, "job_1\n", "Watch the job with `verk jobs watch job_1`.\n"]);
    expect(state.sent[0]?.body).toEqual({
      method: "sft",
      base_model: "verk-tiny",
      dataset: "ds_7",
      output_name: "mine",
    });
  });

  test("reports the findings of a dry run, and its exit code says whether the job would work", async () => {
    const good = await verk("create", "--model", "verk-tiny", "--method", "grpo", "--dataset", "ds_1", "--dry-run");
    expect(good).toMatchObject({
      code: 0,
      out: expect.stringContaining("reward before training: mean 0.5, std 0.5, 75 %"),
    });
    const bad = await verk("create", "--model", "verk-tiny", "--method", "gropo", "--dataset", "ds_1", "--dry-run");
    expect(bad).toMatchObject({ code: 1, out: expect.stringContaining("error: --method: no such method") });
  });

  test.each([
    [["--dataset", "nowhere.jsonl"], "--dataset: there is no file nowhere.jsonl"],
    [["--reward", "nowhere.py"], "--reward: there is no file nowhere.py"],
    [["--file", "nowhere.json"], "Cannot read nowhere.json"],
    [["--set", "rate"], "--set: expected NAME=VALUE"],
    [["--ful"], "Did you mean --full?"],
  ])("%p sends nothing", async (flags, message) => {
    const { code, err } = await verk("create", ...flags);
    expect(err).toContain(message);
    expect([code === 0, state.sent]).toEqual([false, []]);
  });
});

test("watch ends with 1 when the job failed, and says why", async () => {
  const error = { code: "reward_error", message: "The reward code raised", param: null };
  state.looks = [{ status: "failed", error }];
  const { code, err } = await verk("watch", "job_1");
  expect([code, err]).toEqual([1, expect.stringContaining("failed: The reward code raised (reward_error)")]);
});

test("a job that goes back to a checkpoint shows its steps again", async () => {
  state.looks = [at(3), at(1), at(4, OVER)];
  const { code, err } = await verk("watch", "sums");
  expect([code, err]).toEqual([0, expect.stringContaining("reward 0.25 → 1")]);
});

test("a log without --follow ends with the lines so far, even if the job writes more", async () => {
  state.talks = true;
  expect(await verk("logs", "job_1")).toMatchObject({ code: 0, out: "one\ntwo\n", err: "" });
});

test("list, get, logs and the actions print the server's answers", async () => {
  expect((await verk("list")).out).toMatch(/job_1 +sums +running +grpo +verk-tiny +0\/4 +reward 0.5/);
  const shown = (await verk("get", "job_1")).out;
  expect(shown).toMatch(/^id +job_1\nresult +sums\nstatus +running\n/);
  expect(shown).toMatch(/^hyperparameters {2}beta=0\n\nEvents:\nt1 {2}one\nt2 {2}warn: two\n$/m);
  expect(await verk("logs", "job_1", "-f")).toMatchObject({ code: 0, out: "one\ntwo\n", err: "" });
  expect((await verk("logs", "sums", "--json")).out.split("\n")[1]).toContain('"line":"two"');
  for (const action of ["cancel", "pause", "resume"])
    expect((await verk(action, "job_1")).err).toBe(`sums (job_1) is ${action}ed.\n`);
  expect((await verk("delete", "sums")).err).toBe("sums (job_1) is deleted.\n");
  expect(await verk("get", "smus")).toMatchObject({ code: 1, err: expect.stringContaining("Did you mean sums?") });
});

test("F30 jobs model fetches the file, and a damaged download leaves the old file", async () => {
  expect(await verk("model", "job_1", "-o", "m.gguf")).toMatchObject({ code: 0, out: "" });
  expect(readFileSync(join(root, "m.gguf"), "utf8")).toBe("weights");
  state.file = "weighst";
  // F30 a file that exists stays, unless --force is given
  const kept = await verk("model", "job_1", "-o", "m.gguf");
  expect([kept.code, kept.err]).toEqual([
    2,
    expect.stringContaining("m.gguf exists. Choose another file, or replace it with --force"),
  ]);
  const { code, err } = await verk("model", "job_1", "-o", "m.gguf", "--force");
  expect([code, err]).toEqual([1, expect.stringContaining("was not written")]);
  expect(readFileSync(join(root, "m.gguf"), "utf8")).toBe("weights");
});

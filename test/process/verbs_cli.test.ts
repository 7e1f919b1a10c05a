// tier: all (whole paths on the executable)
/** Commands that read and delete, against the real application in this process. Jobs, metrics and samples are rows. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { write as commit } from "../../src/platform/db/db.ts";
import { trainingMetrics, trainingSamples } from "../../src/resources/training/training_jobs/table.ts";
import { runVerk } from "../cli.ts";
import { type JobsApp, jobsApp } from "../jobs_kit.ts";

let app: JobsApp;
let server: Bun.Server<undefined>;
beforeAll(async () => {
  app = await jobsApp();
  server = Bun.serve({ port: 0, fetch: (request) => app.handle(request) });
  await trained("sums", { learning_rate: 1e-4 }, 0);
  await trained("sums-2", { learning_rate: 2e-4 }, 0.5);
}, 60_000);
afterAll(async () => {
  await server.stop(true);
  await app.close();
  app.remove();
});

const verk = (...args: string[]) =>
  runVerk(args, { cwd: app.dir, env: { VERK_URL: server.url.origin, VERK_API_KEY: app.keyA } });
/** Commands that read the data directory themselves. */
const local = (...args: string[]) =>
  runVerk(["models", ...args, "--workspace", "alpha"], { cwd: app.dir, env: { VERK_DATA: app.dir } });

/** A completed job of four steps, with two samples of the last one. */
async function trained(name: string, hyperparameters: object, plus: number) {
  const id = await app.job({ output_name: name, hyperparameters, seed: 7 });
  commit(app.ctx.db, (tx) => {
    for (const step of [1, 2, 3, 4]) {
      const values = { reward: step / 8 + plus, loss: 1 / step };
      tx.insert(trainingMetrics)
        .values({ jobId: id, step, epoch: step / 4, time: step, values })
        .run();
    }
    for (const number of [0, 1])
      tx.insert(trainingSamples)
        .values({
          jobId: id,
          step: 4,
          number,
          prompt: [{ role: "user", content: "1+1" }],
          completion: `two\u001b[31m${number}`,
          reward: number,
          subRewards: { right: number, short: 0.5 },
          advantage: number - 0.5,
          tokens: 3,
          truncated: number === 1,
          error: null,
        })
        .run();
  });
  app.checkpoint(id, 4);
  const times = {
    startedAt: 1_000,
    completedAt: 31_000,
    step: 4,
    totalSteps: 4,
    latestMetrics: { reward: 0.5 + plus },
  };
  app.moves(id, ["provision", "run", "complete"], times);
  return id;
}

test("jobs get shows the settings, the curves, the time and the cost", async () => {
  const { code, out } = await verk("jobs", "get", "sums");
  expect(code).toBe(0);
  expect(out).toMatch(/^status +completed$/m);
  expect(out).toMatch(/^reward +0\.125 → 0\.5 {2}▁▃▆█$/m);
  expect(out).toMatch(/^loss +1 → 0\.25 {2}█▃▂▁$/m);
  expect(out).toMatch(/^time +30 s$/m);
  expect(out).toMatch(/^region +local/m);
  expect(out).toMatch(/^cost +\$0\.00$/m);
  expect(out).toMatch(/^data +prompt @snap-1, 3 rows$/m);
  expect(out).toMatch(/^rewards +python code of the job$/m);
  expect(out).toMatch(/^hyperparameters +learning_rate=0\.0001 |learning_rate=0\.0001/m);
  expect(out).toMatch(/^lora +r=16 alpha=32 /m);
  for (const line of out.split("\n")) expect(Bun.stringWidth(line)).toBeLessThanOrEqual(180);
  expect((await verk("jobs", "get", "sums", "--json")).json()).toMatchObject({ output_name: "sums", seed: 7 });
});

test("jobs metrics shows a line for each metric, steps with --key, and CSV", async () => {
  const all = await verk("jobs", "metrics", "sums");
  expect(all.out).toMatch(/^METRIC +FIRST +LAST +LOWEST +HIGHEST +CURVE$/m);
  expect(all.out).toMatch(/^reward +0\.125 +0\.5 +0\.125 +0\.5 +▁▃▆█$/m);
  const steps = await verk("jobs", "metrics", "sums", "--key", "reward", "--key", "kl", "--from", "3");
  expect(steps.out).toMatch(/^STEP +reward +kl\n3 +0\.375 +-\n4 +0\.5 +-\n$/);
  expect(steps.err).toContain("sums has no metric kl. `verk jobs metrics sums` shows its metrics.");
  expect((await verk("jobs", "metrics", "sums", "--csv", "--key", "loss")).out).toStartWith(
    "step,epoch,time,loss\r\n1,",
  );
  expect((await verk("jobs", "metrics", "sums", "--json")).json()).toMatchObject({ keys: ["loss", "reward"] });
  expect((await verk("jobs", "metrics", "sums", "--points", "few")).err).toContain("--points: expected a whole number");
});

test("jobs samples shows completions with their rewards, and no control characters", async () => {
  const { out, code } = await verk("jobs", "samples", "sums");
  expect(code).toBe(0);
  expect(out).toContain(
    "step 4 · reward 1 (right 1, short 0.5) · advantage 0.5 · 3 tokens, cut off\n  prompt:\n    user: 1+1\n",
  );
  expect(out).toContain("  completion:\n    two\ufffd[31m0\n");
  const one = await verk("jobs", "samples", "sums", "--limit", "1");
  expect(one.err).toContain("more samples");
  expect((await verk("jobs", "samples", "sums", "--step", "2")).err).toContain("no samples of step 2");
  expect((await verk("jobs", "samples", "sums", "--json")).json().data).toHaveLength(2);
});

test("jobs checkpoints lists them", async () => {
  expect((await verk("jobs", "checkpoints", "sums")).out).toMatch(/^ckpt_\w+ +4 /m);
});

test("jobs compare shows results, and only the settings that differ", async () => {
  const { out, code } = await verk("jobs", "compare", "sums", "sums-2");
  expect(code).toBe(0);
  expect(out).toMatch(/^ +sums +sums-2$/m);
  expect(out).toMatch(/^reward, last +0\.5 +1$/m);
  expect(out).toMatch(/^learning_rate +0\.0001 +0\.0002$/m);
  expect(out).not.toContain("num_generations");
  expect((await verk("jobs", "compare", "sums", "sums-2", "--all")).out).toMatch(/^num_generations +8 +8$/m);
  const json = (await verk("jobs", "compare", "sums", "sums-2", "--json")).json();
  expect(json).toMatchObject({ jobs: [{ output_name: "sums" }, { headline: { last: 1 } }] });
  expect(json.settings).toEqual({ learning_rate: [1e-4, 2e-4] });
  expect(await verk("jobs", "compare", "sums", "smus")).toMatchObject({
    code: 1,
    err: expect.stringContaining("Did you mean sums?"),
  });
});

test("deployments delete removes a stopped one, and an active one only with --stop", async () => {
  for (const name of ["one", "two"]) await app.call("POST", "/v1/deployments", { model: "random", name });
  const active = await verk("deployments", "delete", "one");
  expect([active.code, active.err]).toEqual([
    1,
    expect.stringMatching(/is queued: stop it first with `verk deployments stop dep_\w+`/),
  ]);
  await verk("deployments", "stop", "one");
  expect(await verk("deployments", "delete", "one")).toMatchObject({
    code: 0,
    err: expect.stringMatching(/^one \(dep_\w+\) is deleted\.\n$/),
  });
  const json = await verk("deployments", "delete", "two", "--stop", "--json");
  expect(json.json()).toMatchObject({ object: "deployment", deleted: true });
  expect((await app.call("GET", "/v1/deployments")).body.data).toEqual([]);
});

test("rewards delete takes name@version", async () => {
  await app.call("POST", "/v1/reward_functions", {
    name: "brevity",
    language: "python",
    source: "def reward(**k):\n  return [1]\n",
  });
  expect(await verk("rewards", "delete", "brevity@1")).toMatchObject({
    code: 0,
    err: expect.stringMatching(/^brevity@1 \(rf_\w+\) is deleted\.\n$/),
  });
  expect(await verk("rewards", "delete", "brevity@1")).toMatchObject({
    code: 1,
    err: expect.stringContaining("brevity@1"),
  });
  expect((await verk("rewards", "delete", "exact_match")).err).toContain("Built-in reward functions cannot be deleted");
});

test("webhooks delete takes an id or a URL", async () => {
  const made = async (path: string) =>
    (await app.call("POST", "/v1/webhooks", { url: `https://example.com/${path}` })).body.id;
  const [first, second] = [await made("a"), await made("b")];
  expect((await verk("webhooks", "delete", first)).err).toBe(`https://example.com/a (${first}) is deleted.\n`);
  expect((await verk("webhooks", "delete", "https://example.com/b", "--json")).json()).toMatchObject({
    id: second,
    deleted: true,
  });
  expect(await verk("webhooks", "delete", "https://example.com/b")).toMatchObject({
    code: 1,
    err: expect.stringContaining("verk webhooks list"),
  });
});

test("status shows the version, the device, jobs that are not over and deployments", async () => {
  const id = await app.job({ output_name: "waits" });
  await app.call("POST", "/v1/deployments", { model: "random", name: "served" });
  const { out, code } = await verk("status");
  expect(code).toBe(0);
  expect(out).toMatch(/^verk \S+ at http:\/\/\S+, workspace alpha\n.+: 0 B of .+ reserved\n/);
  expect(out).toMatch(new RegExp(`^${id} +waits +queued`, "m"));
  expect(out).toMatch(/^dep_\w+ +served +queued +random/m);
  expect(out).not.toContain("sums");
  expect((await verk("status", "--json")).json()).toMatchObject({
    object: "status",
    jobs: [{ id }],
    deployments: [{ name: "served" }],
  });
  await verk("deployments", "delete", "served", "--stop");
  await app.call("POST", `/v1/training_jobs/${id}/cancel`);
});

describe("jobs create FILE", () => {
  const write = (name: string, text: string) => writeFileSync(join(app.dir, "runs", name), text);
  beforeAll(() => {
    mkdirSync(join(app.dir, "runs"));
    write("sums.jsonl", '{"prompt":"1+1","answer":2}\n{"prompt":"2+2","answer":4}\n');
    write("right.py", "def reward(completions, **kwargs):\n    return [1.0 for _ in completions]\n");
    write("short.py", "def reward(completions, **kwargs):\n    return [len(text) for text in completions]\n");
  });

  test("takes a flat config of TRL as YAML, with paths beside it; flags override it", async () => {
    const config = `
model_name_or_path: random
method: grpo
dataset: sums.jsonl
reward_funcs: [right.py, short.py]
reward_weights: [1, 0.5]
output: from-yaml
learning_rate: 5e-6
num_generations: 4
lora_r: 8
lora_alpha: 16
save_steps: 5
bf16: true
report_to: wandb
use_vllm: true
optim: adamw_torch
`;
    write("grpo.yaml", config);
    const made = await verk("jobs", "create", "runs/grpo.yaml", "--set", "learning_rate=1e-4", "--json");
    expect([made.code, made.err]).toEqual([0, expect.stringContaining("sums.jsonl is uploaded")]);
    expect(made.json()).toMatchObject({
      output_name: "from-yaml",
      hyperparameters: { learning_rate: 1e-4, num_generations: 4 },
      lora: { r: 8, alpha: 16 },
      checkpoint: { save_steps: 5 },
      reward_functions: [{ weight: 1 }, { weight: 0.5 }],
    });
    expect(made.err).toContain("Warning: ignored here: bf16 (the server chooses precision, kernels and memory)");
    await app.call("POST", `/v1/training_jobs/${made.json().id}/cancel`);
    const dry = await verk("jobs", "create", "runs/grpo.yaml", "--set", "epsilom=1", "--dry-run");
    expect([dry.code, dry.out]).toEqual([
      1,
      expect.stringContaining("error: --set epsilom: is not a hyperparameter of grpo. Did you mean epsilon?"),
    ]);
    const other = await verk("jobs", "create", "runs/grpo.yaml", "--lora", "rr=1", "--dry-run");
    expect(other.out).toContain("error: --lora rr: is not a setting of lora");
    expect(other.out).toContain("warning: runs/grpo.yaml: ignored here: bf16 (the server chooses");
  });

  test("takes TOML, and an error names the line of the file", async () => {
    write(
      "sft.toml",
      'base_model = "random"\nmethod = "sft"\ndataset = "completion"\nlearning_rat = 1e-4\n[lora]\nr = 4\n',
    );
    await app.dataset("completion");
    const wrong = await verk("jobs", "create", "runs/sft.toml");
    expect([wrong.code, wrong.err]).toEqual([
      1,
      "verk: runs/sft.toml:4: learning_rat: is not a hyperparameter of sft. Did you mean learning_rate?\n",
    ]);
    write("broken.toml", 'method = "sft"\nseed = \n');
    expect(await verk("jobs", "create", "runs/broken.toml")).toMatchObject({
      code: 2,
      err: expect.stringContaining("runs/broken.toml:2: this is not valid TOML"),
    });
    write("lost.yaml", "method: sft\ndataset: nowhere.csv\n");
    expect(await verk("jobs", "create", "runs/lost.yaml")).toMatchObject({
      code: 1,
      err: expect.stringContaining("runs/lost.yaml: dataset: there is no file nowhere.csv"),
    });
  });
});

test("models show and delete work on the data directory; the file goes too", async () => {
  const shown = await local("show", "random");
  expect([shown.err, shown.out]).toEqual([
    "",
    expect.stringMatching(/^name +random\nid +mdl_\w+\nstatus +ready\nkind +model\n/),
  ]);
  expect((await local("show", "random", "--json")).json()).toMatchObject({ object: "model", name: "random" });
  await app.call("POST", "/v1/deployments", { model: "random", name: "uses-it" });
  const used = await local("delete", "random");
  expect([used.code, used.err]).toEqual([1, expect.stringMatching(/Deployment \S+ uses model random: stop it first/)]);
  await verk("deployments", "delete", "uses-it", "--stop");
  const file = join(app.dir, "models", "random.gguf");
  expect(existsSync(file)).toBe(true);
  expect(await local("delete", "random")).toMatchObject({
    code: 0,
    err: expect.stringMatching(/^random \(mdl_\w+\) is deleted\.\n$/),
  });
  expect(existsSync(file)).toBe(false);
  expect(await local("show", "random")).toMatchObject({ code: 1, err: expect.stringContaining("random") });
});

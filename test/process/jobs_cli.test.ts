import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runVerk } from "../cli.ts";
import { tempDir } from "../harness.ts";
import { at, fake, type Json, OVER, state } from "./fake_jobs.ts";

const root = tempDir();
beforeEach(() => Object.assign(state, { sent: [], looks: [{}], others: [], file: "weights", talks: false }));
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

  test("a sweep creates a job for each value in one group, and ends with a table of them", async () => {
    state.looks = [at(4, OVER)];
    const flags = ["--model", "verk-tiny", "--method", "grpo", "--dataset", "ds_7", "--reward", "brevity"];
    const sweep = ["--sweep", "learning_rate=1e-4,1e-3", "--set", "max_steps=4", "--output", "sums"];
    const said = await verk("create", ...flags, ...sweep, "--watch");
    expect(said.code).toBe(0);
    const jobs = state.sent.filter(({ path }) => path === "POST /v1/training_jobs").map(({ body }) => body);
    expect(jobs).toMatchObject([
      { output_name: "sums-1e-4", group: "sums", hyperparameters: { max_steps: 4, learning_rate: 1e-4 } },
      { output_name: "sums-1e-3", group: "sums", hyperparameters: { max_steps: 4, learning_rate: 1e-3 } },
    ]);
    expect(said.out).toMatch(/^job_1\njob_1\njob +learning_rate +status +step +reward, first +last +curve *\n/i);
    expect(said.out).toMatch(/\nsums +1e-3 +completed +4\/4 /);
    expect(said.err).toContain("/runs/compare?ids=job_1,job_1\n");
    expect((await verk("create", ...flags, "--sweep", "beta=0,1")).err).toContain("name the results with --output");
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

  test("--resolver takes a file, or a stored data resolver by name, and wins over the file of the job", async () => {
    writeFileSync(join(root, "clean.py"), "def resolve(row): return row\n");
    const job = ["--model", "verk-tiny", "--method", "sft", "--dataset", "ds_7"];
    const sent = () => state.sent.at(-1)?.body as Json;
    await verk("create", ...job, "--resolver", "clean.py");
    expect(sent()).toMatchObject({ data_resolver_source: expect.any(String), data_resolver_language: "python" });
    writeFileSync(join(root, "mapped.json"), '{"data_resolver_source":"def resolve(row): return []"}');
    await verk("create", "mapped.json", ...job, "--resolver", "clean@2");
    expect(sent()).toMatchObject({ data_resolver: "clean@2" });
    expect(sent()).not.toHaveProperty("data_resolver_source");
    const { code, err } = await verk("create", ...job, "--resolver", "gone.py");
    expect([code, err]).toEqual([2, expect.stringContaining("Cannot read gone.py")]);
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

test.each<[string[], Json]>([
  [["--notes", "too many steps"], { notes: "too many steps" }],
  [["--tag", "a", "--tag", "b", "--group", "first"], { tags: ["a", "b"], group: "first" }],
  [["--no-tags"], { tags: [] }],
  [["--notes", "", "--group", ""], { notes: "", group: null }],
])("edit %j changes only what the flags name", async (args, body) => {
  expect((await verk("edit", "sums", ...args)).out).toBe("sums (job_1) is changed.\n");
  expect(state.sent).toEqual([{ path: "PATCH /v1/training_jobs/job_1", body }]);
});

test.each([
  [[], "give --tag, --no-tags, --notes or --group"],
  [["--tag", "a", "--no-tags"], "not both"],
])("edit %j is refused, and nothing is sent", async (args, message) => {
  expect(await verk("edit", "sums", ...args)).toMatchObject({ code: 2, err: expect.stringContaining(message) });
  expect(state.sent).toEqual([]);
});

test("a name of several jobs is refused with their ids, before anything happens to one of them", async () => {
  state.others = [{ id: "job_0" }];
  for (const [verb = "", ...more] of [["delete"], ["cancel"], ["get"], ["model", "-o", "x.gguf"]]) {
    const { code, err } = await verk(verb, "sums", ...more);
    expect([code, err]).toEqual([2, expect.stringContaining('2 jobs are named "sums". Give one of their ids')]);
    expect(err).toContain("job_1, job_0");
  }
  expect(state.sent).toEqual([]);
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
  const folder = await verk("model", "job_1", "--variant", "merged", "-o", "folder/");
  expect([folder.code, folder.err]).toEqual([2, expect.stringContaining("the variant merged is one file")]);
});

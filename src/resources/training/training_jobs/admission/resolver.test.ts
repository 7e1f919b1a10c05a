// tier: all (trains models)
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { type TrainingApp, training } from "../../../../../test/fake_trainers.ts";
import { until } from "../../../../../test/harness.ts";
import { openRows } from "../../../../platform/rows/file.ts";
import { liveBytes } from "../../../../platform/rows/live.ts";
import { removeResolved, resolvedPath } from "../../../data/datasets/stream/resolved.ts";
import { planOf } from "../running/plan.ts";
import { sweep } from "../running/sweep.ts";
import { baseModelOf } from "../state/inputs.ts";
import { reconcileReadings } from "./reading.ts";

setDefaultTimeout(60_000);
const PYTHON = `def resolve(row, **kwargs):
    if row["n"] == 0:
        return None
    return [{"prompt": row["prompt"], "completion": str(i)} for i in range(row["n"])]
`;
let app: TrainingApp;
let dataset: string;
beforeAll(async () => {
  app = await training({ loop: false });
  dataset = await streamOf([0, 1, 2].map((n) => ({ prompt: `p${n}`, n })));
});
afterAll(() => app.close().then(app.remove));

async function streamOf(rows: object[]) {
  const { body } = await app.call("POST", "/v1/datasets", { name: "raw", format: "prompt" });
  await app.call("POST", `/v1/datasets/${body.id}/rows`, { rows });
  return body.id as string;
}
const request = (more: object = {}) => ({
  base_model: "random",
  method: "sft",
  dataset,
  data_resolver_source: PYTHON,
  ...more,
});
const create = (more: object = {}) => app.call("POST", "/v1/training_jobs", request(more));
const resolved = (id: string) =>
  until("the rows to be made", () => {
    const job = app.row(id);
    return job.reading === null || job.status === "failed" ? job : undefined;
  });
function textOf(id: string) {
  const file = openRows(resolvedPath(app.ctx, id, "train"), "read");
  const bytes = [...liveBytes(file, app.row(id).resolver?.train?.rows ?? 0)].map(({ bytes }) => bytes);
  file.close();
  return Buffer.concat(bytes).toString();
}
const WANTED = `{"prompt":"p1","completion":"0"}\n{"prompt":"p2","completion":"0"}\n{"prompt":"p2","completion":"1"}\n`;

test("a resolver makes the rows of a job once, before it starts; its code is in the lock", async () => {
  const made = await create({ hyperparameters: { num_train_epochs: 1, per_device_train_batch_size: 1 } });
  expect([made.status, made.body.load?.reason]).toEqual([201, expect.stringContaining("runs the data resolver")]);
  const { id } = made.body;
  const job = await resolved(id);
  expect(job.resolver?.train).toMatchObject({ rows_in: 3, rows: 3, format: "completion" });
  expect(job.numRows).toBe(3);
  expect(job.totalSteps).toBeGreaterThan(0);
  expect(textOf(id)).toBe(WANTED);
  const { body } = await app.call("GET", `/v1/training_jobs/${id}`);
  expect(body).toMatchObject({
    data_resolver_source: PYTHON,
    data_resolver_language: "python",
    data_resolver_rows: { rows_in: 3, rows_out: 3 },
    lock: { resolver_sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
  });
  const model = baseModelOf(app.ctx, job);
  if (!("ready" in model)) throw new Error("the model is not there");
  const { rows } = planOf(app.ctx, job, { ...model, model: model.ready });
  expect(rows).toEqual({ path: resolvedPath(app.ctx, id, "train"), head_row: 3, format: "completion" });
  await app.call("POST", `/v1/datasets/${dataset}/rows`, { rows: [{ prompt: "later", n: 1 }] });
  expect(textOf(id)).toBe(WANTED);
  const clone = await app.call("POST", "/v1/training_jobs", { source_job: id });
  expect(clone.body).toMatchObject({
    data_resolver_source: PYTHON,
    lock: { resolver_sha256: body.lock.resolver_sha256 },
  });
  await resolved(clone.body.id);
  expect(textOf(clone.body.id)).toBe(WANTED);
  await app.call("POST", `/v1/training_jobs/${id}/cancel`);
  await sweep(app.ctx);
  expect([id, clone.body.id].map((each) => existsSync(resolvedPath(app.ctx, each, "train")))).toEqual([false, true]);
});

test("rows that were lost are made again, and are the same", async () => {
  const { body } = await create({
    seed: 7,
    data_resolver_source:
      "import random\ndef resolve(row):\n    return {'prompt': 'a', 'completion': str(random.random())}\n",
  });
  const first = (await resolved(body.id)).resolver?.train?.sha256;
  await removeResolved(app.ctx, body.id);
  await reconcileReadings(app.ctx);
  expect(app.row(body.id).reading).not.toBeNull();
  expect((await resolved(body.id)).resolver?.train?.sha256).toBe(first!);
});

test.each([
  [
    "that raises",
    "def resolve(row):\n    return row['nothing']\n",
    "data_resolver_source: row 1: line 2: KeyError: 'nothing'",
  ],
  ["that leaves out everything", "def resolve(row): return None\n", "the code left out all"],
  [
    "that returns wrong rows",
    "def resolve(row): return {'prompt': 7, 'completion': ''}\n",
    "row 1: the row that the code returned is wrong: prompt must be a string",
  ],
  ["that returns another format", "def resolve(row): return row\n", "sft needs rows of the format"],
])("code %s fails the job with the row and the line", async (_what, source, message) => {
  const { body } = await create({ data_resolver_source: source });
  const job = await resolved(body.id);
  expect(job.error).toMatchObject({ code: "dataset_error", param: "/data_resolver_source" });
  expect(job.error?.message).toContain(message);
});

test.each([
  [{ data_resolver_source: "def resolve(row)\n" }, "/data_resolver_source", "cannot be run: line 1"],
  [{ data_resolver_source: "def other(row): return row\n" }, "/data_resolver_source", "no function named `resolve`"],
  [{ data_resolver_source: "?" }, "/data_resolver_language", "could not be detected"],
  [
    {
      data_resolver_source: null,
      data_resolver_language: "python",
      method: "grpo",
      reward_source: "def reward(completion): return 1",
    },
    "/data_resolver_language",
    "only used with",
  ],
])("%j is refused at the creation", async (more, param, message) => {
  const { status, body } = await create(more);
  expect({ status, param: body.error?.param }).toEqual({ status: 422, param });
  expect(body.error.message).toContain(message);
});

const store = (more: object) => app.call("POST", "/v1/reward_functions", { name: "clean", kind: "resolver", ...more });

test("a stored resolver by name, version or id: the lock has its version, and a deletion changes nothing", async () => {
  const first = await store({ source: PYTHON });
  expect([first.status, first.body]).toMatchObject([201, { kind: "resolver", version: 1, status: "ready" }]);
  expect(first.body.entrypoints).toMatchObject([{ name: "resolve" }]);
  expect((await store({ source: PYTHON })).status).toBe(200);
  const other = "def resolve(row): return {'prompt': 'a', 'completion': 'b'}\n";
  const second = await store({ source: other, timeout_seconds: 3 });
  const listed = await app.call("GET", "/v1/reward_functions?kind=resolver");
  expect(listed.body.data.map(({ version }: { version: number }) => version)).toEqual([2, 1]);
  expect((await app.call("GET", "/v1/reward_functions?kind=reward")).body.data).toEqual([]);
  for (const [ref, { id, version }] of [
    ["clean", second.body],
    ["clean@1", first.body],
    [first.body.id, first.body],
  ] as const) {
    const { status, body } = await create({ data_resolver_source: undefined, data_resolver: ref });
    expect([status, body]).toMatchObject([
      201,
      {
        data_resolver: id,
        data_resolver_source: null,
        data_resolver_language: "python",
        lock: { resolver_id: id, resolver_version: version, resolver_sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
      },
    ]);
    await resolved(body.id);
  }
  const { body } = await create({ data_resolver_source: undefined, data_resolver: "clean@1" });
  await resolved(body.id);
  const again = await app.call("POST", "/v1/training_jobs", { source_job: body.id });
  expect(again.body).toMatchObject({ data_resolver: first.body.id, lock: { resolver_id: first.body.id } });
  const replaced = await app.call("POST", "/v1/training_jobs", { source_job: body.id, data_resolver_source: other });
  expect(replaced.body).toMatchObject({ data_resolver: null, data_resolver_source: other });
  expect(replaced.body.lock).toMatchObject({ resolver_id: null, resolver_version: null });
  await app.call("DELETE", `/v1/reward_functions/${first.body.id}`);
  await removeResolved(app.ctx, body.id);
  await reconcileReadings(app.ctx);
  expect((await resolved(body.id)).resolver?.train?.rows).toBeGreaterThan(0);
  const refused = await create({ data_resolver_source: undefined, data_resolver: "clean@1" });
  expect([refused.status, refused.body.error.param]).toEqual([404, "/data_resolver"]);
});

test("a reward is no resolver, and the other way round; a name has one kind", async () => {
  const reward = "def reward(completions, **kwargs): return [1.0 for _ in completions]\n";
  await store({ name: "maps", source: PYTHON });
  await store({ name: "scores", source: reward, kind: "reward" });
  await store({ name: "wrong", source: "def reward(completion): return 1\n" });
  const rows = [{ prompt: "p", completion: "c" }];
  const grpo = { method: "grpo", data_resolver_source: null };
  for (const [made, param, message] of [
    [await store({ name: "maps", source: reward, kind: "reward" }), "/kind", "kind: maps is a resolver"],
    [await store({ name: "scores", source: PYTHON }), "/kind", "kind: scores is a reward"],
    [await create({ data_resolver: "maps" }), "/data_resolver", "not both"],
    [await create({ data_resolver_source: null, data_resolver: "scores" }), "/data_resolver", "scores@1 is a reward"],
    [await create({ data_resolver_source: null, data_resolver: "exact_match" }), "/data_resolver", "built-in reward"],
    [await create({ data_resolver_source: null, data_resolver: "wrong" }), "/data_resolver", "wrong@1 cannot be run"],
    [
      await create({ ...grpo, reward_functions: [{ id: "maps" }] }),
      "/reward_functions/0/id",
      "maps@1 is a data resolver, not a reward: use it as data_resolver of a job",
    ],
    [await app.call("POST", "/v1/reward_functions/maps/run", { rows }), "id", "maps@1 is a data resolver"],
  ] as const) {
    expect({ status: made.status, param: made.body.error?.param }).toEqual({ status: 422, param });
    expect(made.body.error.message).toContain(message);
  }
  const raises = "def resolve(row):\n    return row['nothing']\n";
  await store({ name: "raises", source: raises });
  const { body } = await create({ data_resolver_source: null, data_resolver: "raises" });
  expect((await resolved(body.id)).error).toMatchObject({
    code: "dataset_error",
    message: "data_resolver: row 1: line 2: KeyError: 'nothing'",
    param: "/data_resolver",
  });
});

test("a dry run shows the first rows before and after, with counts", async () => {
  const { body } = await app.call("POST", "/v1/training_jobs/validate", request());
  expect([body.valid, body.errors]).toEqual([true, []]);
  expect(body.data_resolver_preview).toMatchObject({ rows_in: 4, total_rows: 4, rows_out: 4 });
  expect(body.data_resolver_preview.samples.slice(0, 3)).toEqual([
    { before: { prompt: "p0", n: 0 }, after: [] },
    { before: { prompt: "p1", n: 1 }, after: [{ prompt: "p1", completion: "0" }] },
    { before: { prompt: "p2", n: 2 }, after: [0, 1].map((i) => ({ prompt: "p2", completion: String(i) })) },
  ]);
  const wrong = await app.call(
    "POST",
    "/v1/training_jobs/validate",
    request({ data_resolver_source: "def resolve(row): return 1\n" }),
  );
  expect(wrong.body).toMatchObject({ valid: false, errors: [{ param: "/data_resolver_source" }] });
});

import { afterEach, describe, expect, test } from "bun:test";
import { eventsOf } from "../../../../test/fake_replicas.ts";
import { fakeRewards } from "../../../../test/fake_rewards.ts";
import { manyApps, type TestApp } from "../../../../test/harness.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const PATH = "/v1/evaluators";
const CHECK = { kind: "string_check", config: { operation: "contains", value: "yes" } };
const add = async (app: TestApp, body: object) => {
  const answer = await app.call("POST", PATH, { name: "e", ...body });
  if (answer.status >= 300) throw new Error(JSON.stringify(answer.body));
  return answer.body as { id: string; version: number; config: Record<string, unknown> };
};
const scores = async (app: TestApp, id: string, rows: object[]) => {
  const { status, body } = await app.call("POST", `${PATH}/${id}/run`, { rows });
  expect(status).toBe(200);
  return body.results.map((each: { score: number | null }) => each.score);
};

test("an existing name gets the next version, and the same settings return the newest one", async () => {
  const app = open();
  const first = await app.call("POST", PATH, { name: "e", ...CHECK, metadata: { a: "b" }, pass_threshold: 0.5 });
  expect([first.status, first.body]).toMatchObject([
    201,
    { object: "evaluator", version: 1, kind: "string_check", pass_threshold: 0.5, metadata: { a: "b" } },
  ]);
  expect(first.body.config).toEqual({ operation: "contains", value: "yes", ignore_case: false });
  const same = await app.call("POST", PATH, { name: "e", ...CHECK, metadata: { a: "b" }, pass_threshold: 0.5 });
  expect([same.status, same.body]).toEqual([200, first.body]);
  const second = await add(app, CHECK);
  expect(second.version).toBe(2);
  for (const [ref, version] of [
    ["e", 2],
    ["e@1", 1],
    [first.body.id, 1],
  ])
    expect((await app.call("GET", `${PATH}/${ref}`)).body.version).toBe(version);
  const listed = async (query = "") => (await app.call("GET", `${PATH}${query}`)).body.data.length;
  expect([await listed(), await listed("?latest=true"), await listed("?kind=code")]).toEqual([2, 1, 0]);
  expect((await app.call("GET", `${PATH}/e`, undefined, { key: app.keyB })).status).toBe(404);
});

test("a version is deleted by id or name@3, and its number is never used again", async () => {
  const app = open();
  const { id } = await add(app, CHECK);
  expect((await app.call("DELETE", `${PATH}/e`)).body.error.message).toContain("is a name");
  expect((await app.call("DELETE", `${PATH}/e@1`)).body).toEqual({ id, object: "evaluator", deleted: true });
  expect((await app.call("GET", `${PATH}/${id}`)).status).toBe(404);
  expect((await add(app, CHECK)).version).toBe(2);
  expect(eventsOf(app, id)).toEqual(["evaluator.created", "evaluator.deleted"]);
});

test("an Idempotency-Key makes one version", async () => {
  const app = open();
  const headers = { "idempotency-key": "once" };
  const body = { name: "e", kind: "string_check", config: { operation: "equals" } };
  const [first, again] = [
    await app.call("POST", PATH, body, { headers }),
    await app.call("POST", PATH, body, { headers }),
  ];
  expect([first.status, again.status, again.body]).toEqual([201, 201, first.body]);
  expect(again.headers.get("idempotent-replayed")).toBe("true");
});

describe("refused with a pointer to the field", () => {
  const judge = { deployment: "none", rubric: "r" };
  test.each<[string, object, number, string]>([
    ["an unknown kind", { kind: "vibes", config: {} }, 422, "/kind"],
    ["a name with @", { ...CHECK, name: "a@1" }, 422, "/name"],
    ["a pattern", { kind: "string_check", config: { operation: "regex", value: "(?=a)" } }, 422, "/config/value"],
    ["a judge of no deployment", { kind: "llm_judge", config: judge }, 404, "/config/deployment"],
    ["labels", { kind: "llm_judge", config: { ...judge, mode: "labels" } }, 422, "/config/labels"],
    ["a scale", { kind: "llm_judge", config: { ...judge, scale: { min: 2, max: 2 } } }, 422, "/config/scale/max"],
    ["embeddings of no deployment", { kind: "similarity", config: { deployment: "x" } }, 404, "/config/deployment"],
    [
      "no reward function",
      { kind: "reward_function", config: { reward_function: "x" } },
      404,
      "/config/reward_function",
    ],
    [
      "params of a built-in reward",
      { kind: "reward_function", config: { reward_function: "exact_match", params: { column: 1 } } },
      422,
      "/config/params/column",
    ],
    ["code that does not load", { kind: "code", config: { source: "def reward(x): broken" } }, 422, "/config/source"],
  ])("%s", async (_, body, status, param) => {
    const app = open();
    fakeRewards(app);
    const answer = await app.call("POST", PATH, { name: "e", ...body });
    expect([answer.status, answer.body.error?.param]).toEqual([status, param]);
  });
});

test("string checks compare with the value or with the reference of the row", async () => {
  const app = open();
  const run = async (config: object, ...rows: object[]) =>
    scores(app, (await add(app, { kind: "string_check", config })).id, rows);
  const [yes, no] = [{ output: "Yes, four" }, { output: "no" }];
  expect(await run({ operation: "contains", value: "yes" }, yes, no)).toEqual([0, 0]);
  expect(await run({ operation: "contains", value: "YES", ignore_case: true }, yes, no)).toEqual([1, 0]);
  expect(await run({ operation: "starts_with", value: "Yes" }, yes, no)).toEqual([1, 0]);
  expect(await run({ operation: "regex", value: "\\bf\\w+$" }, yes, no)).toEqual([1, 0]);
  const both = [
    { output: "a", reference: "a" },
    { output: "a", reference: "b" },
  ];
  expect(await run({ operation: "equals" }, ...both, { output: "a" })).toEqual([1, 0, null]);
});

test("a run has a result for each row and a summary", async () => {
  const app = open();
  const { id } = await add(app, { kind: "string_check", config: { operation: "equals" } });
  const rows = [{ output: "a", reference: "a" }, { output: "a", reference: "b" }, { output: "a" }];
  const { body } = await app.call("POST", `${PATH}/e/run`, { rows });
  expect(body).toMatchObject({ object: "evaluator_run", evaluator_id: id });
  expect(body.results.map((each: { passed: unknown }) => each.passed)).toEqual([true, false, null]);
  expect(body.results[2].error).toContain("no reference");
  expect(body.summary).toEqual({ count: 3, scored: 2, failed: 1, mean: 0.5, pass_rate: 0.5 });
  expect((await app.call("POST", `${PATH}/e/run`, { rows: [{}] })).body.error.param).toBe("/rows/0/output");
});

test("code and reward functions score in the sandbox, by version, and pass from the threshold on", async () => {
  const app = open();
  const source = "export const reward = ({ completion, limit }) => (completion.length <= limit ? 1 : 0.25);";
  const code = await add(app, { kind: "code", config: { source, params: { limit: 3 } }, pass_threshold: 1 });
  expect(code.config).toMatchObject({ source, language: "typescript" });
  expect((await app.call("GET", PATH)).body.data[0].config.source).toBeUndefined();
  const { body } = await app.call("POST", `${PATH}/${code.id}/run`, { rows: [{ output: "abc" }, { output: "abcd" }] });
  expect(body.results).toMatchObject([
    { score: 1, passed: true },
    { score: 0.25, passed: false },
  ]);
  const made = await app.call("POST", "/v1/reward_functions", { name: "length", source });
  const named = await add(app, {
    kind: "reward_function",
    config: { reward_function: "length", params: { limit: 1 } },
  });
  expect(named.config["reward_function"]).toBe(made.body.id);
  expect(await scores(app, named.id, [{ output: "a" }])).toEqual([1]);
  await app.call("DELETE", `/v1/reward_functions/${made.body.id}`);
  expect((await app.call("POST", `${PATH}/${named.id}/run`, { rows: [{ output: "a" }] })).status).toBe(404);
}, 60_000);

test("JSON schemas are checked when they are stored, and outputs against them or against that of the row", async () => {
  const app = open();
  const schema = { type: "object", properties: { age: { type: "integer" } }, required: ["age"] };
  const { id } = await add(app, { kind: "json_schema", config: { schema } });
  const rows = [
    ...[{ output: '{"age": 3}' }, { output: '{"age": "3"}' }, { output: "no" }, { output: "1" }],
    ...[
      { output: "1", schema: { type: "integer" } },
      { output: '{"age": 3}', schema: { type: "integer" } },
    ],
    { output: '{"age": 3}', schema: null },
  ];
  expect(await scores(app, id, rows)).toEqual([1, 0, 0, 0, 1, 0, 1]);
  const bad = await app.call("POST", PATH, { name: "e", kind: "json_schema", config: { schema: { type: "int" } } });
  expect([bad.status, bad.body.error?.param]).toEqual([422, "/config/schema"]);
}, 60_000);

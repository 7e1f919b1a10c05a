/** The rows of the conformance review about inference requests and the list of models: each test names its row. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { newId } from "../../src/lib/ids.ts";
import * as modelResults from "../../src/resources/serving/models/results.ts";
import * as models from "../../src/resources/serving/models/service.ts";
import { type DeployingApp, manyDeploying } from "../fake_replicas.ts";
import { jobFile } from "../foreign_paths.ts";
import { until } from "../harness.ts";
import { makeAdapter } from "../models.ts";

setDefaultTimeout(60_000); // each starts processes
const { open, closeAll } = manyDeploying();
afterEach(closeAll);

const USER = { role: "user", content: "hi" };

async function served(name = "base") {
  const on = await open();
  const id = await on.deploy({ name });
  await on.reaches(id, "serving");
  return { on, id, path: `/v1/deployments/${id}/chat/completions` };
}

test("conformance 4: a body that fails its schema is 422 on the contract's chat route, and 400 on routes of other formats", async () => {
  const { on, path } = await served();
  const wrong: [object, string][] = [
    [{ model: "base" }, "/messages"],
    [{ model: "base", messages: "x" }, "/messages"],
    [{ model: "base", messages: [USER], temperature: "hot" }, "/temperature"],
    [{ model: "base", messages: [USER], max_tokens: "many" }, "/max_tokens"],
  ];
  for (const [body, param] of wrong) {
    const { status, body: answer } = await on.call("POST", path, body);
    expect([status, answer.error]).toMatchObject([422, { type: "validation_error", code: "schema", param }]);
    const other = await on.call("POST", "/v1/chat/completions", body);
    expect([other.status, other.body.error.param]).toEqual([400, param]);
  }
  const malformed = await on.call("POST", path, undefined, {
    raw: "{",
    headers: { "content-type": "application/json" },
  });
  expect([malformed.status, malformed.body.error.code]).toEqual([400, "invalid_json"]);
  const unknown = await on.call("POST", path, { model: "other", messages: [USER] });
  expect(unknown.status).toBe(404);
});

/** Adapters of the model `random`. */
async function adapters(on: DeployingApp, names: readonly string[]) {
  const dir = join(on.dir, "jobs");
  mkdirSync(dir, { recursive: true });
  const base = models.mustGet(on.ctx, on.workspaceA, "random");
  for (const [i, name] of names.entries())
    await modelResults.registerResult(on.ctx, {
      workspaceId: on.workspaceA,
      jobId: newId("job", i + 1),
      checkpointId: newId("ckpt", i + 1),
      step: 1,
      variant: "adapter",
      name,
      baseModelId: base.id,
      file: jobFile(on.dir, makeAdapter(dir, { arch: "llama", type: "F32", adapterSeed: i + 1 })),
    });
}

test("conformance 5: limit counts every model of the list, and each can be called and is listed once", async () => {
  const { on } = await served("one");
  await adapters(on, ["poet", "clerk", "own"]);
  for (const deployment of [{ name: "two" }, { name: "own", model: "own" }])
    await on.reaches(await on.deploy(deployment), "serving");
  expect((await on.call("POST", "/v1/agents", { name: "agent", deployment: "two" })).status).toBe(201);
  const all = ["one", "own", "two", "one:clerk", "one:poet", "agent"];
  const list = async (query: string) => (await on.call("GET", `/v1/models?${query}`)).body;
  const idsOf = ({ data }: { data: { id: string }[] }) => data.map(({ id }) => id);
  expect(idsOf(await list(""))).toEqual(all);
  for (const limit of [1, 2, 3, 4, 6]) {
    const ids: string[] = [];
    for (let after = ""; ; ) {
      const page = await list(`limit=${limit}${after}`);
      expect(page.data.length).toBeLessThanOrEqual(limit);
      ids.push(...idsOf(page));
      if (!page.has_more) break;
      after = `&after=${encodeURIComponent(ids.at(-1) ?? "")}`;
    }
    expect(ids).toEqual(all);
  }
  for (const model of [...all, "two:poet"])
    expect((await on.call("POST", "/v1/chat/completions", { model, messages: [USER] })).status).toBe(200);
});

test("conformance 9: source left out is training_job for a result of a job, and hub for any other model", async () => {
  const { on, id } = await served();
  expect((await on.call("GET", `/v1/deployments/${id}`)).body.source).toBe("hub");
  await adapters(on, ["result"]);
  const deployed = await on.call("POST", "/v1/deployments", { model: "result", name: "tuned" });
  expect([deployed.status, deployed.body.source]).toEqual([201, "training_job"]);
  const { jobId, checkpointId } = models.mustGet(on.ctx, on.workspaceA, "result");
  for (const [name, model] of [
    ["by-job", jobId],
    ["by-checkpoint", checkpointId],
  ]) {
    const { status, body } = await on.call("POST", "/v1/deployments", { model, name });
    expect([status, body.source]).toEqual([201, "training_job"]);
  }
});

test("conformance 10: the name of an active deployment is its own (decided)", async () => {
  const { on, id } = await served();
  const taken = await on.call("POST", "/v1/deployments", { model: "random", name: "base" });
  expect([taken.status, taken.body.error.code, taken.body.error.param]).toEqual([400, "name_taken", "/name"]);
  await on.call("POST", `/v1/deployments/${id}/stop`);
  expect((await on.call("POST", "/v1/deployments", { model: "random", name: "base" })).status).toBe(201);
});

test("conformance 11: six roles are taken, and any other is refused with their list", async () => {
  const { on, path } = await served();
  const message = { tool: { tool_call_id: "c" }, function: { name: "f" } } as Record<string, object>;
  for (const role of ["system", "developer", "user", "assistant", "tool", "function"]) {
    const messages = [USER, { role, content: "x", ...message[role] }, USER];
    expect([role, (await on.call("POST", path, { model: "base", messages })).status]).toEqual([role, 200]);
  }
  const refused = await on.call("POST", path, { model: "base", messages: [{ role: "critic", content: "x" }] });
  expect([refused.status, refused.body.error.param]).toEqual([422, "/messages/0/role"]);
  for (const role of ["system", "developer", "user", "assistant", "tool", "function"])
    expect(refused.body.error.message).toContain(role);
  const mistyped = await on.call("POST", path, { model: "base", messages: [{ role: "asistant", content: "x" }] });
  expect(mistyped.body.error.message).toContain("Did you mean assistant?");
  expect(mistyped.body.error.message).toContain("developer");
});

test("conformance 12: jobs and deployments take the providers of this server's regions (decided)", async () => {
  const { on } = await served();
  const refused = await on.call("POST", "/v1/deployments", { model: "random", name: "cloud", provider: "lambda" });
  expect([refused.status, refused.body.error.param]).toEqual([422, "/provider"]);
  const rates = await on.call("GET", "/v1/cost/rates");
  expect(Object.keys(rates.body)).toContain("lambda");
});

test("conformance 19: refused requests are in the request log, the metrics and the traces", async () => {
  const { on, id, path } = await served();
  const json = { "content-type": "application/json" };
  const refusals: [number, Promise<{ status: number }>][] = [
    [404, on.call("POST", path, { model: "other", messages: [USER] })],
    [422, on.call("POST", path, { model: "base", messages: "x" })],
    [400, on.call("POST", path, undefined, { raw: "{", headers: json })],
    [400, on.call("POST", "/v1/chat/completions", { model: "base", messages: "x" })],
    [400, on.call("POST", "/v1/messages", { model: "base", messages: [USER] })], // max_tokens is missing
    [404, on.call("POST", path, { model: "base:nobody", messages: [USER] })],
  ];
  for (const [status, answer] of refusals) expect((await answer).status).toBe(status);
  expect((await on.call("POST", path, { model: "base", messages: [USER] })).status).toBe(200);
  const log = await until("seven records", async () => {
    const { body } = await on.call("GET", `/v1/deployments/${id}/requests`);
    return body.data.length === 7 ? body : undefined;
  });
  const statuses = log.data.map(({ status_code }: { status_code: number }) => status_code);
  expect(statuses.toSorted()).toEqual([200, 400, 400, 400, 404, 404, 422]);
  expect(
    log.data.every((each: { status_code: number; error_message: string | null }) =>
      each.status_code === 200 ? each.error_message === null : each.error_message !== null,
    ),
  ).toBe(true);
  const { body: metrics } = await on.call("GET", `/v1/deployments/${id}/metrics`);
  expect(metrics).toMatchObject({ total_requests: 7, error_rate: 6 / 7 });
  const { body: traces } = await on.call("GET", `/v1/traces?status=error&deployment_id=${id}`);
  expect(traces.data).toHaveLength(6);
});

test("conformance 19: a model that does not exist leaves a trace, and a wrong key leaves nothing", async () => {
  const { on, id } = await served();
  expect((await on.call("POST", "/v1/chat/completions", { model: "gpt-none", messages: [USER] })).status).toBe(404);
  const keyless = await on.call("POST", `/v1/deployments/${id}/chat/completions`, {}, { key: "vk_wrong" });
  expect(keyless.status).toBe(401);
  const { body } = await on.call("GET", "/v1/traces?status=error");
  expect(body.data).toMatchObject([{ model: "gpt-none", status: 404, deployment_id: null }]);
  expect((await on.call("GET", `/v1/deployments/${id}/requests`)).body.data).toEqual([]);
});

test("conformance note 8: a field that looks like a known one is refused on inference routes too", async () => {
  const { on, path } = await served();
  for (const [route, status] of [
    [path, 422],
    ["/v1/chat/completions", 400],
  ] as const) {
    const refused = await on.call("POST", route, { model: "base", messages: [USER], temprature: 0.5 });
    expect([refused.status, refused.body.error.param]).toEqual([status, "/temprature"]);
    expect(refused.body.error.message).toContain("Did you mean temperature?");
    const constrained = await on.call("POST", route, { model: "base", messages: [USER], ebnf: "root ::= x" });
    expect([constrained.status, constrained.body.error.param]).toEqual([status, "/ebnf"]);
    const kept = await on.call("POST", route, { model: "base", messages: [USER], store: true, min_tokens: 1 });
    expect([kept.status, kept.headers.get("warning")]).toEqual([200, '299 verk "ignored: unknown field /min_tokens"']);
  }
});

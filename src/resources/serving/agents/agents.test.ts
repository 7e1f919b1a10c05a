import { afterEach, expect, test } from "bun:test";
import { eventsOf } from "../../../../test/fake_replicas.ts";
import { manyApps, type TestApp, until } from "../../../../test/harness.ts";
import { pretendServing } from "../../../../test/pretend_replica.ts";
import { merge, withAgent } from "./apply.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const PATH = "/v1/agents";
const TOOL = { type: "function", function: { name: "look_up", parameters: { type: "object" } } };
const REFUSAL = { type: "invalid_request_error", code: "invalid_request", message: "no", param: null };
const USER = { role: "user", content: "hi" };

async function started(name = "served") {
  const app = open();
  const { body } = await app.call("POST", "/v1/deployments", { model: "test/model", name });
  pretendServing(app, body.id);
  return { app, id: body.id as string };
}
const create = async (app: TestApp, json: object = {}) => {
  const { status, body } = await app.call("POST", PATH, { name: "support", deployment: "served", ...json });
  expect({ status, error: body.error ?? null }).toEqual({ status: 201, error: null });
  return body;
};

test("an agent has versions under its name, and each is found by id, name@version or name", async () => {
  const { app } = await started();
  const fields = { system_prompt: "Be brief.", tools: [TOOL], sampling: { temperature: 0 }, metadata: { a: "b" } };
  const first = await create(app, fields);
  expect(first).toMatchObject({ object: "agent", name: "support", version: 1, deployment: "served", ...fields });
  expect(first.id).toStartWith("agt_");
  const second = await create(app, { system_prompt: "Be long." });
  expect(second.version).toBe(2);
  const get = async (ref: string) => (await app.call("GET", `${PATH}/${ref}`)).body;
  expect([await get(first.id), await get("support@1")]).toEqual([first, first]);
  expect([await get(second.id), await get("support")]).toEqual([second, second]);
  expect((await app.call("GET", PATH)).body.data).toEqual([second, first]);
  expect((await app.call("GET", `${PATH}?latest=true&name=support`)).body.data).toEqual([second]);
  for (const method of ["GET", "DELETE"])
    expect((await app.call(method, `${PATH}/${first.id}`, undefined, { key: app.keyB })).status).toBe(404);
  expect((await app.call("DELETE", `${PATH}/support`)).status).toBe(400);
  expect((await app.call("DELETE", `${PATH}/support@2`)).body).toEqual({
    id: second.id,
    object: "agent",
    deleted: true,
  });
  expect(await get("support")).toEqual(first);
  expect((await create(app)).version).toBe(3);
  expect(eventsOf(app, second.id)).toEqual(["agent.created", "agent.deleted"]);
});

test.each([
  ["a deployment that does not exist", { deployment: "none" }, 404, "/deployment"],
  ["the name of an active deployment", { name: "served" }, 400, "/name"],
  ["a name with @", { name: "a@1" }, 422, "/name"],
  ["two tools of one name", { tools: [TOOL, TOOL] }, 422, "/tools/1/function/name"],
  ["a choice among no tools", { sampling: { tool_choice: "required" } }, 422, "/sampling/tool_choice"],
  ["a temperature of 3", { sampling: { temperature: 3 } }, 422, "/sampling/temperature"],
  ["an empty prompt", { system_prompt: "" }, 422, "/system_prompt"],
])("%s is refused and names the field", async (_what, json, status, param) => {
  const { app } = await started();
  const answer = await app.call("POST", PATH, { name: "support", deployment: "served", ...json });
  expect([answer.status, answer.body.error.param]).toEqual([status, param]);
});

test("an agent answers as model by name, version and id, with its fields as defaults", async () => {
  const { app, id } = await started();
  const agent = await create(app, { system_prompt: "Be brief.", tools: [TOOL], sampling: { temperature: 0 } });
  for (const model of ["support", "support@1", agent.id]) {
    expect((await app.call("POST", "/v1/chat/completions", { model, messages: [USER] })).status).toBe(200);
    expect(withAgent(app.ctx, app.workspaceA, { model, messages: [USER], top_p: 0.5 })).toEqual({
      model: "support@1",
      temperature: 0,
      top_p: 0.5,
      tools: [TOOL],
      messages: [{ role: "system", content: "Be brief." }, USER],
    });
  }
  const requests = await until("the records", async () => {
    const { data } = (await app.call("GET", `/v1/traces?deployment_id=${id}`)).body;
    return data.length === 3 ? data : undefined;
  });
  for (const each of requests) expect(each).toMatchObject({ agent_id: agent.id, agent_version: 1 });
  const foreign = await app.call(
    "POST",
    "/v1/chat/completions",
    { model: agent.id, messages: [USER] },
    { key: app.keyB },
  );
  expect([foreign.status, foreign.body.error.param]).toEqual([404, "/model"]);
});

test("the replica gets the prompt, the tools and the sampling of the agent", async () => {
  const { app } = await started();
  const { liveOf } = await import("../deployments/fleet/fleet.ts");
  await create(app, {
    system_prompt: "Be brief.",
    tools: [TOOL],
    sampling: { temperature: 0, max_completion_tokens: 9 },
  });
  const { body } = await app.call("GET", "/v1/deployments");
  const [replica] = liveOf(app.ctx, body.data[0].id).replicas;
  const sent: Record<string, unknown>[] = [];
  const socket = `${replica?.host.worker.socketPath}2`;
  const server = Bun.serve({
    unix: socket,
    async fetch(request) {
      sent.push((await request.json()) as Record<string, unknown>);
      return Response.json({ error: REFUSAL }, { status: 400 });
    },
  });
  Object.assign(replica?.host.worker ?? {}, { socketPath: socket });
  await app.call("POST", "/v1/chat/completions", { model: "support", messages: [USER], temperature: null });
  expect(sent[0]).toMatchObject({
    model: "support@1",
    temperature: 0,
    max_completion_tokens: 9,
    top_p: 1,
    tools: [TOOL],
    messages: [{ role: "system", content: "Be brief." }, USER],
  });
  await server.stop(true);
});

const AGENT = { name: "a", version: 2, systemPrompt: "S", tools: [], sampling: { temperature: 0.2 } };
const SYSTEM = (content: unknown, role = "system") => ({ role, content });
const PART = { type: "text", text: "mine" };
test.each([
  ["a prompt before the messages", { messages: [USER] }, { messages: [SYSTEM("S"), USER] }],
  [
    "a prompt joined with the request's own",
    { messages: [SYSTEM("mine"), USER] },
    { messages: [SYSTEM("S\n\nmine"), USER] },
  ],
  [
    "a prompt joined with a developer's",
    { messages: [SYSTEM("mine", "developer")] },
    { messages: [SYSTEM("S\n\nmine", "developer")] },
  ],
  [
    "a prompt joined with parts",
    { messages: [SYSTEM([PART])] },
    { messages: [SYSTEM([{ type: "text", text: "S\n\n" }, PART])] },
  ],
  ["a field of the request before the agent's", { temperature: 1 }, { temperature: 1 }],
  ["null as if it were absent", { temperature: null }, { temperature: 0.2 }],
  ["malformed messages as they are", { messages: "hi" }, { messages: "hi" }],
])("a merge gives %s", (_what, body, expected) => {
  expect(merge(AGENT, body)).toEqual({ model: "a@2", temperature: 0.2, ...expected });
});

test("tools of a request come without the agent's choice, which may name another tool", () => {
  const agent = { ...AGENT, tools: [TOOL as never], sampling: { tool_choice: "required" } };
  expect(merge(agent, {})).toEqual({ model: "a@2", tools: [TOOL], tool_choice: "required" });
  expect(merge(agent, { tools: [] })).toEqual({ model: "a@2", tools: [] });
});

test("max_tokens of a request overrides max_completion_tokens of the agent", () => {
  const agent = { ...AGENT, sampling: { max_completion_tokens: 5 } };
  expect(merge(agent, { max_tokens: 9 })).toEqual({ model: "a@2", max_tokens: 9 });
  expect(agent.sampling).toEqual({ max_completion_tokens: 5 });
});

test("a deployment comes before an agent of the same name, and an agent without its deployment says so", async () => {
  const { app, id } = await started();
  await create(app);
  await app.call("POST", `/v1/deployments/${id}/stop`);
  const lost = await app.call("POST", "/v1/chat/completions", { model: "support", messages: [USER] });
  expect([lost.status, lost.body.error.param]).toEqual([404, "/model"]);
  expect(lost.body.error.message).toContain("the agent support uses the deployment served");
  const { body } = await app.call("POST", "/v1/deployments", { model: "test/model", name: "support" });
  pretendServing(app, body.id);
  expect(withAgent(app.ctx, app.workspaceA, { model: "support" })).toEqual({ model: "support" });
  expect((await app.call("POST", "/v1/chat/completions", { model: "support", messages: [USER] })).status).toBe(200);
});

test("agents are listed as models after the deployments, page by page, while their deployment is active", async () => {
  const { app, id } = await started("z-served");
  const deployments = { b: "z-served", a: "z-served", c: id, d: "test/model" };
  for (const [name, deployment] of Object.entries(deployments)) await create(app, { name, deployment });
  const agent = await create(app, { name: "a", deployment: "z-served" });
  const names: string[] = [];
  for (let after = ""; ; ) {
    const { data, has_more } = (await app.call("GET", `/v1/models?limit=1${after}`)).body;
    names.push(...data.map((each: { id: string }) => each.id));
    if (!has_more) break;
    after = `&after=${names.at(-1)}`;
  }
  expect(names).toEqual(["z-served", "a", "b", "c", "d"]);
  for (const model of names)
    expect((await app.call("POST", "/v1/chat/completions", { model, messages: [USER] })).status).toBe(200);
  await app.call("DELETE", `${PATH}/b@1`);
  const rest = (await app.call("GET", "/v1/models?after=b")).body.data;
  expect(rest.map((each: { id: string }) => each.id)).toEqual(["c", "d"]);
  const { body } = await app.call("GET", "/v1/models/a");
  expect(body).toMatchObject({ id: "a", object: "model", agent: { id: agent.id, version: 2 }, deployment: { id } });
  await app.call("POST", `/v1/deployments/${id}/stop`);
  expect((await app.call("GET", "/v1/models")).body.data).toEqual([]);
  expect((await app.call("GET", "/v1/models/a")).status).toBe(404);
});

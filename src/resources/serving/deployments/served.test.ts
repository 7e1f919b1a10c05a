import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { type DeployingApp, manyDeploying } from "../../../../test/fake_replicas.ts";
import { testApp } from "../../../../test/harness.ts";
import { deploymentRow } from "../../../../test/money_deeds.ts";
import { write } from "../../../platform/db/db.ts";
import * as models from "../models/service.ts";
import { models as modelTable } from "../models/table.ts";
import { deployments } from "./table.ts";

setDefaultTimeout(60_000); // each starts processes
const { open, closeAll } = manyDeploying();
afterEach(closeAll);

const MESSAGES = [{ role: "user", content: "hi" }];
const chat = (on: DeployingApp, model?: string) =>
  on.call("POST", "/v1/chat/completions", { messages: MESSAGES, ...(model === undefined ? {} : { model }) });
const ids = async (on: DeployingApp, query = "") =>
  (await on.call("GET", `/v1/models${query}`)).body.data.map(({ id }: { id: string }) => id);

test("F2 models: each listed id works as `model`; a queued one is not listed; the registry is a parameter away", async () => {
  const on = await open();
  expect(await ids(on)).toEqual([]);
  const [b, a] = [await on.deploy({ name: "b/one" }), await on.deploy({ name: "a", min_replicas: 0 })];
  for (const id of [a, b]) await on.reaches(id, "serving");
  const { body } = await on.call("GET", "/v1/models");
  expect(body).toMatchObject({ object: "list", has_more: false });
  expect(body.data[1]).toMatchObject({
    id: "b/one",
    object: "model",
    created: expect.any(Number),
    owned_by: on.workspaceA,
    name: "random",
    deployment: { id: b, status: "serving", parked: false },
  });
  for (const { id } of body.data) {
    expect((await chat(on, id)).status).toBe(200);
    const one = await on.call("GET", `/v1/models/${encodeURIComponent(id)}`);
    expect([one.status, one.body.id]).toEqual([200, id]);
  }
  expect(await ids(on, "?limit=1")).toEqual(["a"]);
  expect(await ids(on, "?limit=1&after=a")).toEqual(["b/one"]);
  await on.call("POST", `/v1/deployments/${a}/stop`);
  expect(await ids(on)).toEqual(["b/one"]);
  expect(await ids(on, "?after=a")).toEqual(["b/one"]);
  const [random] = await ids(on, "?registry=true");
  expect(random).toStartWith("mdl_");
  expect((await on.call("GET", `/v1/models/${random}`)).body).toMatchObject({ id: random, name: "random" });
  expect(await ids(on, "?registry=false")).toEqual(["b/one"]);
  const other = await on.call("GET", "/v1/models", undefined, { key: on.keyB });
  expect(other.body.data).toEqual([]);
});

test("every list of models has the context of the deployment, not of the model", async () => {
  const on = await open();
  await on.reaches(await on.deploy({ name: "d", context_length: 64 }), "serving");
  expect((await on.call("GET", "/v1/models")).body.data).toMatchObject([{ id: "d", context_length: 64 }]);
  expect((await on.call("GET", "/v1/models/d")).body.context_length).toBe(64);
  expect((await on.call("GET", "/api/v0/models")).body.data).toMatchObject([{ id: "d", max_context_length: 64 }]);
  expect((await on.call("GET", "/api/ps")).body.models).toMatchObject([{ name: "d", context_length: 64 }]);
  const { model_info: facts } = (await on.call("POST", "/api/show", { model: "d" })).body;
  expect(facts[`${facts["general.architecture"]}.context_length`]).toBe(64);
  const [random] = (await on.call("GET", "/v1/models?registry=true")).body.data;
  expect(random.context_length).toBeGreaterThan(64);
});

test("F2 models: a deployment comes before a model of the same name, and registry=true shows the model", async () => {
  const on = await open();
  await on.reaches(await on.deploy({ name: "random" }), "serving");
  expect((await on.call("GET", "/v1/models/random")).body.deployment).toMatchObject({ status: "serving" });
  const { body } = await on.call("GET", "/v1/models/random?registry=true");
  expect([body.id.slice(0, 4), body.deployment]).toEqual(["mdl_", undefined]);
});

test("F2 model left out: the only deployment that runs answers; with several or none the error says what to do", async () => {
  const on = await open();
  const none = await chat(on);
  expect([none.status, none.body.error.code, none.body.error.param]).toEqual([404, "model_not_found", "/model"]);
  expect(none.body.error.message).toContain("No deployment is active");
  const id = await on.deploy({ name: "only" });
  await on.reaches(id, "serving");
  const answer = await chat(on);
  expect([answer.status, answer.body.model]).toEqual([200, "only"]);
  for (const [path, body] of [
    [`/v1/deployments/${id}/chat/completions`, { messages: MESSAGES }],
    ["/v1/completions", { prompt: "hi" }],
    ["/v1/embeddings", { input: "hi" }],
  ] as const) {
    const headers = { authorization: `Bearer ${on.keyA}`, "content-type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify(body) };
    const got = await on.handle(new Request(`http://localhost${path}`, init)); // the fake answers everything as a chat
    expect([got.status, ((await got.json()) as { model: string }).model]).toEqual([200, "only"]);
  }
  await on.reaches(await on.deploy({ name: "second" }), "serving");
  const several = await chat(on);
  expect([several.status, several.body.error.code]).toEqual([400, "missing_required_parameter"]);
  expect(several.body.error.message).toContain("Active deployments: only, second");
});

test("F2 unknown model: the 404 names what runs, at most ten, and the nearest; a model's own name finds its server", async () => {
  const on = await open();
  await on.reaches(await on.deploy({ name: "carry" }), "serving");
  const unknown = await chat(on, "cary");
  expect([unknown.status, unknown.body.error.code]).toEqual([404, "model_not_found"]);
  expect(unknown.body.error.message).toContain("Did you mean carry? Active deployments: carry");
  expect((await chat(on, "random")).status).toBe(200);
  expect((await chat(on, models.mustGet(on.ctx, on.workspaceA, "random").id)).status).toBe(200);
  for (let i = 0; i < 12; i++) {
    const row = { ...deploymentRow(1, on.workspaceA, null), name: `n${i}`, status: "serving" as const, parked: true };
    write(on.ctx.db, (tx) => tx.insert(deployments).values(row).run());
  }
  expect((await chat(on, "quite another")).body.error.message).toEndWith("and 3 more");
});

test("D14 models: a page of the registry reads by index and never walks the rows of other workspaces", async () => {
  const app = testApp();
  const { db } = app.ctx;
  const add = (workspaceId: string | null, name: string, now: number) =>
    write(db, (tx) => models.add(tx, { workspaceId, name, source: "upload" }, now).name);
  for (let i = 0; i < 5; i++) {
    add(app.workspaceA, `own-${i}`, 1_000 + 2 * i);
    add(null, `shared-${i}`, 1_001 + 2 * i);
    add(app.workspaceB, `foreign-${i}`, 1_000 + 2 * i);
  }
  const names: string[] = [];
  for (let after = ""; ; ) {
    const { body } = await app.call("GET", `/v1/models?registry=true&limit=3${after}`);
    names.push(...body.data.map(({ name }: { name: string }) => name));
    if (!body.has_more) break;
    after = `&after=${body.data.at(-1).id}`;
  }
  expect(names).toEqual([4, 3, 2, 1, 0].flatMap((i) => [`shared-${i}`, `own-${i}`]));
  for (const owner of ["workspace_id = ?", "workspace_id IS NULL"]) {
    const plan = db.$client
      .query(`EXPLAIN QUERY PLAN SELECT * FROM models WHERE ${owner} ORDER BY created_at DESC, id DESC LIMIT 21`)
      .all(...(owner.endsWith("?") ? ["w"] : []));
    expect(plan).toMatchObject([{ detail: expect.stringContaining("models_page (workspace_id=?)") }]);
  }
  expect(db.select().from(modelTable).all()).toHaveLength(15);
  await app.close();
  app.remove();
});

// tier: all (serves models)
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type DeployingApp, eventsOf, manyDeploying } from "../../../../test/fake_replicas.ts";
import { jobFile } from "../../../../test/foreign_paths.ts";
import { fakeClock, until } from "../../../../test/harness.ts";
import { makeAdapter, makeModel } from "../../../../test/models.ts";
import { newId } from "../../../lib/ids.ts";
import { durable } from "../../../platform/db/db.ts";
import { register } from "../models/files/folder.ts";
import * as modelResults from "../models/results.ts";
import * as models from "../models/service.ts";
import { liveOf } from "./fleet/fleet.ts";
import { onShortage, planSwitch, roleOf } from "./switch.ts";
import type { ModelRef } from "./table.ts";

setDefaultTimeout(120_000); // each starts processes
const { open, apps, closeAll } = manyDeploying();
afterEach(closeAll);

/** An app with a second model, `other`. */
async function app(...args: Parameters<typeof open>): Promise<DeployingApp> {
  const on = await open(...args);
  const dir = join(on.dir, "made");
  mkdirSync(dir, { recursive: true });
  renameSync(makeModel(dir, { arch: "llama", type: "F32" }), join(on.dir, "models", "other.gguf"));
  await register(on.ctx, { name: "other", path: "models/other.gguf" });
  return on;
}

const get = async (on: DeployingApp, id: string, key = on.keyA) =>
  (await on.call("GET", `/v1/deployments/${id}`, undefined, { key })).body;
const change = (on: DeployingApp, id: string, body: object) => on.call("PATCH", `/v1/deployments/${id}`, body);
const chat = (on: DeployingApp, id: string, more = {}) =>
  on.call("POST", `/v1/deployments/${id}/chat/completions`, {
    model: "d",
    messages: [{ role: "user", content: "hi" }],
    ...more,
  });
const serving = async (on: DeployingApp, more = {}) => {
  const id = await on.deploy(more);
  await on.reaches(id, "serving");
  return id;
};
const hasModel = (on: DeployingApp, id: string, model: string, key?: string) =>
  until(`${id} to serve ${model}`, async () => {
    const row = await get(on, id, key);
    return row.model === model && row.status === "serving" && row.next_model === null ? row : undefined;
  });
const workers = (on: DeployingApp) => on.ctx.supervisor.live().filter(({ kind }) => kind === "fake_serving");
/** Makes the lease of the deployment so large that no second model fits beside it. */
async function fill(on: DeployingApp, id: string) {
  const { memory_total_bytes: total } = (await on.call("GET", "/v1/gpu")).body.data[0];
  on.ctx.db.$client.run("UPDATE gpu_leases SET bytes = ? WHERE holder LIKE ?", [total - 1_000, `${id}/%`]);
}

describe("decisions", () => {
  const ref = (modelId: string): ModelRef => ({ model: `name-${modelId}`, modelId, source: "hub", checkpoint: null });
  const row = (nextModel: ModelRef | null = null) => ({ ...ref("a"), nextModel, previousModel: null });

  test("the row changes at once only if no replica answers", () => {
    expect(planSwitch(row(), ref("b"), true)).toEqual({ when: "later", patch: { nextModel: ref("b") } });
    expect(planSwitch(row(), ref("b"), false)).toEqual({
      when: "now",
      patch: { ...ref("b"), nextModel: null, previousModel: ref("a") },
    });
    expect(planSwitch(row(), ref("a"), true).when).toBe("never");
    expect(planSwitch(row(ref("b")), ref("a"), true)).toEqual({
      when: "cancel",
      patch: { ...ref("a"), nextModel: null },
    });
    expect(planSwitch(row(ref("b")), ref("c"), true).patch).toEqual({ nextModel: ref("c") });
  });

  test("a replica that a later request has overtaken has no part", () => {
    expect(["a", "b", "c"].map((id) => roleOf(row(ref("b")), id))).toEqual(["present", "next", "neither"]);
    expect(roleOf(undefined, "a")).toBe("neither");
  });

  test("the present model gives way only if that makes room", () => {
    expect(onShortage({ fits: true, isAnswering: true })).toBe("replace");
    expect(onShortage({ fits: false, isAnswering: true })).toBe("wait");
    expect(onShortage({ fits: true, isAnswering: false })).toBe("wait");
    expect(onShortage({ fits: false, isAnswering: false })).toBe("drop");
  });
});

test("the old model answers until the new one is ready, and its streams finish", async () => {
  const on = await app();
  const gate = join(on.dir, "go");
  const finish = join(on.dir, "finish");
  on.relive([
    { lasts: finish, gapMs: 2 },
    { gate, words: 2 },
  ]);
  const id = await serving(on);
  const { status, body } = await change(on, id, { model: "other" });
  expect([status, body.model, body.next_model.model, body.previous_model]).toEqual([200, "random", "other", null]);
  await until("the new one to load", async () => (await get(on, id)).next_model.load.stage === "loading");
  const running = chat(on, id);
  await until("a request", () => liveOf(on.ctx, id).flights.size === 1);
  expect((await get(on, id)).status).toBe("serving");
  writeFileSync(gate, "");
  const after = await hasModel(on, id, "other");
  expect(after.previous_model).toEqual({ model: "random", source: "hub", checkpoint: null });
  expect((await chat(on, id)).body.choices[0].message.content).toBe("w0 w1 ");
  expect(liveOf(on.ctx, id).flights.size).toBe(1); // the old stream
  writeFileSync(finish, "");
  expect((await running).status).toBe(200);
  await until("the old process to end", () => workers(on).length === 1);
  expect(eventsOf(on, id)).toEqual([
    ...["deployment.created", "deployment.serving", "deployment.updated", "deployment.switched"],
  ]);
  const traces = async () => (await on.call("GET", `/v1/traces?deployment_id=${id}`)).body.data;
  await until("both traces", async () => (await traces()).length === 2);
  expect((await traces()).map(({ model }: { model: string }) => model).sort()).toEqual(["other", "random"]);
});

test("an adapter of the same base joins the process", async () => {
  const on = await app();
  mkdirSync(join(on.dir, "jobs"), { recursive: true });
  const base = models.mustGet(on.ctx, on.workspaceA, "random");
  for (const [i, name] of ["poet", "clerk"].entries())
    await modelResults.registerResult(on.ctx, {
      workspaceId: on.workspaceA,
      jobId: newId("job", i + 1),
      checkpointId: newId("ckpt", i + 1),
      step: 1,
      variant: "adapter",
      name,
      baseModelId: base.id,
      file: jobFile(on.dir, makeAdapter(join(on.dir, "jobs"), { arch: "llama", type: "F32", adapterSeed: i + 1 })),
    });
  const id = await serving(on, { model: "poet" });
  for (const model of ["clerk", "random", "poet"]) {
    expect((await change(on, id, { model })).status).toBe(200);
    await hasModel(on, id, model);
    expect((await chat(on, id)).body.choices[0].message.content).toBe(model === "random" ? "w0 w1 w2 " : "a0 a1 a2 ");
  }
  expect(on.starts()).toHaveLength(1);
  await until("one replica", () => liveOf(on.ctx, id).replicas.size === 1);
});

test("a model that cannot be loaded leaves the old one serving and says why", async () => {
  const on = await app({ lives: [{}, { fail: "data" }, {}] });
  const id = await serving(on);
  await change(on, id, { model: "other" });
  const row = await until("the end of the switch", async () => {
    const found = await get(on, id);
    return found.last_error === null ? undefined : found;
  });
  expect(row).toMatchObject({
    status: "serving",
    model: "random",
    next_model: null,
    previous_model: null,
    error: null,
  });
  expect(row.last_error).toBe("The switch to other failed, and random stays: asked to fail: data");
  expect((await chat(on, id)).status).toBe(200);
  expect(eventsOf(on, id).slice(2)).toEqual(["deployment.updated", "deployment.switch_failed"]);
  await change(on, id, { model: "other" });
  expect((await hasModel(on, id, "other")).last_error).toBe(null);
});

test("a stopped or parked deployment has the new model at once", async () => {
  const clock = fakeClock();
  const on = await app({ clock, flags: { "serving.standby": false } });
  const id = await serving(on, { min_replicas: 0, idle_timeout_seconds: 30 });
  await until("it to be parked", async () => {
    clock.advance(1_000);
    return (await get(on, id)).parked;
  });
  const { body } = await change(on, id, { model: "other" });
  expect(body).toMatchObject({ parked: true, model: "other", next_model: null, previous_model: { model: "random" } });
  expect(eventsOf(on, id).slice(-2)).toEqual(["deployment.switched", "deployment.updated"]);
  expect((await chat(on, id)).status).toBe(200);
  await on.call("POST", `/v1/deployments/${id}/stop`);
  expect((await change(on, id, { model: "random" })).body).toMatchObject({ status: "stopped", model: "random" });
});

test("without memory for both, requests wait for the new model", async () => {
  const on = await app();
  const gate = join(on.dir, "go");
  on.relive([{}, { gate }]);
  const id = await serving(on);
  await fill(on, id);
  await change(on, id, { model: "other" });
  await until("the new one to load alone", async () => {
    const { status, load } = await get(on, id);
    return status === "provisioning" && load.stage === "loading";
  });
  expect(await get(on, id)).toMatchObject({ model: "random", next_model: { model: "other" } });
  const held = chat(on, id);
  await until("it to wait", () => liveOf(on.ctx, id).held.size === 1);
  writeFileSync(gate, "");
  expect((await held).status).toBe(200);
  expect((await hasModel(on, id, "other")).last_error).toBe(null);
  expect(eventsOf(on, id).slice(2)).toEqual(["deployment.updated", "deployment.switched", "deployment.serving"]);
});

test("without memory for both, the old model comes back if the new one cannot be loaded", async () => {
  const on = await app({ lives: [{}, { fail: "memory" }, {}] });
  const id = await serving(on);
  await fill(on, id);
  await change(on, id, { model: "other" });
  await until("the old one", async () => eventsOf(on, id).slice(2).includes("deployment.serving"));
  expect(await get(on, id)).toMatchObject({ status: "serving", model: "random", next_model: null });
  expect(eventsOf(on, id).slice(2)).toEqual(["deployment.updated", "deployment.switch_failed", "deployment.serving"]);
});

test("while other work holds the memory, the old model goes on and the switch waits", async () => {
  const on = await app();
  const id = await serving(on);
  const work = await serving(on, { name: "work" });
  await fill(on, work);
  await change(on, id, { model: "other" });
  await until("the reason", async () => (await get(on, id)).next_model.load.reason?.startsWith("waits for"));
  expect([(await get(on, id)).status, (await chat(on, id)).status]).toEqual(["serving", 200]);
  expect((await change(on, id, { model: "random" })).body).toMatchObject({ model: "random", next_model: null });
  await until("it to leave the queue", () => liveOf(on.ctx, id).queuedAs === undefined);
  await change(on, id, { model: "other" });
  await on.call("POST", `/v1/deployments/${work}/stop`);
  await hasModel(on, id, "other");
});

test("a restart of the server goes on with the switch, and a stop completes it", async () => {
  const on = await app();
  const gate = join(on.dir, "go");
  on.relive([{}, {}, { gate }, { gate }]);
  const [id, halted] = [await serving(on), await serving(on, { name: "halted" })];
  for (const each of [id, halted]) await change(on, each, { model: "other" });
  await until("both to load", () => on.starts().length === 4);
  await on.call("POST", `/v1/deployments/${halted}/stop`);
  expect(await get(on, halted)).toMatchObject({ status: "stopped", model: "other", next_model: null });
  expect(await get(on, id)).toMatchObject({ model: "random", next_model: { model: "other" } });
  await durable(on.ctx.db);
  await on.close();
  apps.pop();
  const after = await open({ dir: on.dir });
  await hasModel(after, id, "other", on.keyA);
  expect(after.starts()).toHaveLength(5);
});

test("a switch is checked as a creation is", async () => {
  const on = await app();
  const id = await serving(on);
  const refused = async (body: object) => {
    const { status, body: answer } = await change(on, id, body);
    return [status, answer.error.param];
  };
  expect(await refused({ model: newId("job", 1) })).toEqual([404, "/model"]);
  expect(await refused({ model: "nothing-here", source: "training_job" })).toEqual([404, "/model"]);
  expect(await refused({ model: "other", checkpoint: "ckpt_1" })).toEqual([422, "/checkpoint"]);
  expect(await refused({ checkpoint: "ckpt_1" })).toEqual([422, "/model"]);
  expect(await get(on, id)).toMatchObject({ model: "random", next_model: null });
  expect((await change(on, id, { model: "random" })).status).toBe(200);
  expect(on.starts()).toHaveLength(1);
});

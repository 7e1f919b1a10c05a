// tier: all (serves models)
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type DeployingApp, eventsOf, manyDeploying } from "../../../../../test/fake_replicas.ts";
import { jobFile } from "../../../../../test/foreign_paths.ts";
import { fakeClock, until } from "../../../../../test/harness.ts";
import { makeAdapter } from "../../../../../test/models.ts";
import { newId } from "../../../../lib/ids.ts";
import { durable } from "../../../../platform/db/db.ts";
import * as modelResults from "../../models/results.ts";
import * as models from "../../models/service.ts";
import { liveOf } from "./fleet.ts";

setDefaultTimeout(120_000); // each starts processes
const MEASURED = 1_000_000; // what a fake says of its model
const { open: app, apps, closeAll } = manyDeploying();
afterEach(closeAll);

/** Adapters of the model `random`, as training jobs leave them. */
async function adapters(on: DeployingApp, ...names: string[]) {
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
const bytesOf = (on: DeployingApp, name: string) =>
  models.mustGet(on.ctx, on.workspaceA, name).shape?.weight_bytes as number;

const chat = (on: DeployingApp, id: string, model: string, more = {}) =>
  on.call("POST", `/v1/deployments/${id}/chat/completions`, {
    model,
    messages: [{ role: "user", content: "hi" }],
    ...more,
  });
const text = async (on: DeployingApp, id: string, model: string) =>
  (await chat(on, id, model)).body.choices[0].message.content;
/** Deployment → bytes of its lease. */
const ledger = async (on: DeployingApp) =>
  Object.fromEntries(
    (await on.call("GET", "/v1/gpu")).body.data[0].leases.map((lease: { holder: string; bytes: number }) => [
      lease.holder.split("/")[0],
      lease.bytes,
    ]),
  );
const serving = async (on: DeployingApp, name: string, more = {}) => {
  const id = await on.deploy({ model: name, name, ...more });
  await on.reaches(id, "serving");
  return id;
};
const pidOf = (on: DeployingApp, id: string) => [...liveOf(on.ctx, id).replicas][0]?.host.worker.pid as number;

test("adapters and their base share one process, and the model is counted once", async () => {
  const on = await app();
  await adapters(on, "poet", "clerk");
  const poet = await serving(on, "poet");
  expect(await ledger(on)).toEqual({ [poet]: MEASURED + bytesOf(on, "poet") });
  const [clerk, plain] = [await serving(on, "clerk"), await serving(on, "random")];
  expect(on.starts()).toHaveLength(1);
  expect(await ledger(on)).toEqual({
    [poet]: MEASURED + bytesOf(on, "poet"),
    [clerk]: bytesOf(on, "clerk"),
    [plain]: 0,
  });
  expect(await text(on, poet, "poet")).toBe("a0 a1 a2 ");
  expect(await text(on, clerk, "clerk")).toBe("a0 a1 a2 ");
  expect(await text(on, plain, "random")).toBe("w0 w1 w2 ");
  const totals = async (id: string) => (await on.call("GET", `/v1/deployments/${id}/metrics`)).body.total_requests;
  for (const id of [poet, clerk, plain]) await until("its one request", async () => (await totals(id)) === 1);
  for (const id of [poet, clerk, plain]) expect(eventsOf(on, id)).toEqual(["deployment.created", "deployment.serving"]);
  expect((await on.call("GET", `/v1/deployments/${poet}`)).body).toMatchObject({
    model: "poet",
    source: "training_job",
  });
});

test("one that stops leaves the others undisturbed; the process ends with the last", async () => {
  const on = await app({ lives: [{ words: 60, gapMs: 5 }] });
  await adapters(on, "poet", "clerk");
  const [poet, clerk] = [await serving(on, "poet"), await serving(on, "clerk")];
  const pid = pidOf(on, clerk);
  const running = chat(on, clerk, "clerk", { stream: true });
  await until("it to be answered", () => liveOf(on.ctx, clerk).flights.size === 1);
  await on.call("POST", `/v1/deployments/${poet}/stop`);
  expect(await ledger(on)).toEqual({ [clerk]: MEASURED + bytesOf(on, "clerk") });
  expect((await running).body).toEndWith("data: [DONE]\n\n");
  expect([pidOf(on, clerk), on.starts().length]).toEqual([pid, 1]);
  await on.call("POST", `/v1/deployments/${clerk}/stop`);
  await until("the process to be gone", () => on.ctx.supervisor.live().every(({ kind }) => kind !== "fake_serving"));
  expect(await ledger(on)).toEqual({});
});

test("a killed process is a loss for all who sat there, and all recover in one process", async () => {
  const on = await app();
  await adapters(on, "poet", "clerk");
  const ids = [await serving(on, "poet"), await serving(on, "clerk"), await serving(on, "random")];
  process.kill(pidOf(on, ids[0] as string), "SIGKILL");
  for (const id of ids) {
    await until("its recovery", () => eventsOf(on, id).filter((type) => type === "deployment.serving").length === 2);
    expect(eventsOf(on, id).at(-2)).toBe("deployment.unhealthy");
  }
  expect(on.starts()).toHaveLength(2);
  expect(new Set(ids.map((id) => pidOf(on, id))).size).toBe(1);
  const held = Object.values(await ledger(on)) as number[];
  expect(held.reduce((sum, bytes) => sum + bytes, 0)).toBe(MEASURED + bytesOf(on, "poet") + bytesOf(on, "clerk"));
});

test("deployments that are made at the same moment load their model once", async () => {
  const on = await app();
  await adapters(on, "poet", "clerk");
  const ids = await Promise.all(["poet", "clerk", "random"].map((name) => on.deploy({ model: name, name })));
  for (const id of ids) await on.reaches(id, "serving");
  expect(on.starts()).toHaveLength(1);
});

test("whoever joins a process that still loads has as much time as the model takes", async () => {
  const on = await app({ clock: fakeClock() }); // no time passes
  await adapters(on, "poet", "clerk");
  const loadUntilOf = async (name: string) =>
    [...liveOf(on.ctx, await serving(on, name)).replicas][0]?.loadUntil as number;
  const first = await loadUntilOf("poet");
  expect(await loadUntilOf("clerk")).toBeGreaterThanOrEqual(first);
});

test("other settings, other workspaces and a second bare model get processes of their own", async () => {
  const on = await app();
  await adapters(on, "poet", "clerk");
  await serving(on, "poet");
  await serving(on, "clerk", { parallel: 2 });
  await serving(on, "random");
  expect(on.starts()).toHaveLength(2);
  const second = await on.deploy({ model: "random", name: "second" });
  await on.reaches(second, "serving");
  expect(on.starts()).toHaveLength(3);
  const json = { model: "random", name: "theirs" };
  const { body } = await on.call("POST", "/v1/deployments", json, { key: on.keyB });
  await until("theirs to serve", async () => {
    const theirs = await on.call("GET", `/v1/deployments/${body.id}`, undefined, { key: on.keyB });
    return theirs.body.status === "serving";
  });
  expect(on.starts()).toHaveLength(4);
});

test("an adapter that does not fit fails alone, in words", async () => {
  const on = await app();
  await adapters(on, "poet", "clerk");
  const poet = await serving(on, "poet");
  const file = basename(models.mustGet(on.ctx, on.workspaceA, "clerk").path as string);
  on.relive([{ refuses: file }]);
  await on.call("POST", `/v1/deployments/${poet}/stop`);
  await on.call("POST", `/v1/deployments/${poet}/start`);
  await on.reaches(poet, "serving");
  const clerk = await on.deploy({ model: "clerk", name: "clerk" });
  const failed = await on.reaches(clerk, "failed");
  expect(failed.error).toBe(`${file} is not an adapter of this model`);
  expect(await text(on, poet, "poet")).toBe("a0 a1 a2 ");
  expect(await ledger(on)).toEqual({ [poet]: MEASURED + bytesOf(on, "poet") });
});

test("one that is parked leaves its place, and finds it again when it wakes", async () => {
  const clock = fakeClock();
  const on = await app({ clock, flags: { "serving.standby": false } });
  await adapters(on, "poet", "clerk");
  const poet = await serving(on, "poet", { min_replicas: 0, idle_timeout_seconds: 30 });
  const clerk = await serving(on, "clerk");
  await until("it to be parked", async () => {
    clock.advance(1_000);
    return (await on.call("GET", `/v1/deployments/${poet}`)).body.parked;
  });
  expect(await ledger(on)).toEqual({ [clerk]: MEASURED + bytesOf(on, "clerk") });
  expect(await text(on, clerk, "clerk")).toBe("a0 a1 a2 ");
  expect(await text(on, poet, "poet")).toBe("a0 a1 a2 ");
  expect(on.starts()).toHaveLength(1);
  expect(await ledger(on)).toEqual({ [clerk]: MEASURED + bytesOf(on, "clerk"), [poet]: bytesOf(on, "poet") });
});

test("the model gives way only when all who sit there may be parked, and then they all are", async () => {
  const clock = fakeClock();
  const on = await app({ clock, flags: { "gpu.cpu_share": 0.05, "serving.standby": false } });
  await adapters(on, "poet", "clerk");
  const idle = { min_replicas: 0, idle_timeout_seconds: 86_400 };
  const poet = await serving(on, "poet", idle);
  const clerk = await serving(on, "clerk", { ...idle, pinned: true });
  const total = (await on.call("GET", "/v1/gpu")).body.data[0].memory_total_bytes;
  on.ctx.db.$client.run("UPDATE gpu_leases SET bytes = ? WHERE holder LIKE ?", [total - 100_000, `${poet}/%`]); // as if it were that large
  const third = await on.deploy({ name: "third", parallel: 1 });
  const get = async (id: string) => {
    clock.advance(1_000);
    return (await on.call("GET", `/v1/deployments/${id}`)).body;
  };
  await until("the third to wait", async () => (await get(third)).load.reason?.startsWith("waits for"));
  expect((await get(poet)).parked).toBe(false);
  await on.call("PATCH", `/v1/deployments/${clerk}`, { pinned: false });
  await until("the third to serve", async () => (await get(third)).status === "serving");
  expect([(await get(poet)).parked, (await get(clerk)).parked]).toEqual([true, true]);
});

test("a process that does not decode any more is a loss for all who sit there", async () => {
  const clock = fakeClock();
  const flags = { "serving.health_interval_ms": 5_000, "serving.health_timeout_ms": 3_000 };
  const on = await app({ clock, lives: [{ sick: true }, {}], flags });
  await adapters(on, "poet", "clerk");
  const ids = [await serving(on, "poet"), await serving(on, "clerk")];
  for (const id of ids)
    await until("its recovery", () => {
      clock.advance(1_000);
      return eventsOf(on, id).filter((type) => type === "deployment.serving").length === 2;
    });
  expect(on.starts()).toHaveLength(2);
  for (const id of ids) expect(eventsOf(on, id)).toContain("deployment.unhealthy");
});

test("one whose settings change moves out, and the others stay where they are", async () => {
  const on = await app();
  await adapters(on, "poet", "clerk");
  const [poet, clerk] = [await serving(on, "poet"), await serving(on, "clerk")];
  const before = pidOf(on, clerk);
  await on.call("PATCH", `/v1/deployments/${poet}`, { parallel: 3 });
  await on.reaches(poet, "serving");
  expect(await text(on, poet, "poet")).toBe("a0 a1 a2 ");
  expect(pidOf(on, clerk)).toBe(before);
  expect(pidOf(on, poet)).not.toBe(before);
  await until("both to be counted", async () => Object.keys(await ledger(on)).length === 2);
  expect(await ledger(on)).toEqual({
    [clerk]: MEASURED + bytesOf(on, "clerk"),
    [poet]: MEASURED + bytesOf(on, "poet"),
  });
});

test("whoever leaves while the model is loading does not take it along", async () => {
  const on = await app({ lives: [{ gate: "" }] });
  const gate = join(on.dir, "go");
  on.relive([{ gate }]);
  await adapters(on, "poet", "clerk");
  const poet = await on.deploy({ model: "poet", name: "poet" });
  await on.reaches(poet, "provisioning");
  const clerk = await on.deploy({ model: "clerk", name: "clerk" });
  await until("it to sit there", () => liveOf(on.ctx, clerk).replicas.size === 1);
  await on.call("POST", `/v1/deployments/${poet}/stop`);
  writeFileSync(gate, "");
  await on.reaches(clerk, "serving");
  expect(on.starts()).toHaveLength(1);
  expect(await ledger(on)).toEqual({ [clerk]: MEASURED + bytesOf(on, "clerk") });
});

test("after a restart of the server all sit in one process again", async () => {
  const on = await app();
  await adapters(on, "poet", "clerk");
  const ids = [await serving(on, "poet"), await serving(on, "clerk"), await serving(on, "random")];
  await durable(on.ctx.db);
  await on.close();
  apps.pop();
  const after = await app({ dir: on.dir });
  const status = async (id: string) =>
    (await after.call("GET", `/v1/deployments/${id}`, undefined, { key: on.keyA })).body.status;
  for (const id of ids) await until("it to serve again", async () => (await status(id)) === "serving");
  expect(new Set(ids.map((id) => pidOf(after, id))).size).toBe(1);
  expect(after.starts()).toHaveLength(2);
});

test("requests that wake two parked adapters at once load their model once", async () => {
  const clock = fakeClock();
  const on = await app({ clock, flags: { "serving.standby": false } });
  await adapters(on, "poet", "clerk");
  const ids = [];
  for (const name of ["poet", "clerk"])
    ids.push(await serving(on, name, { min_replicas: 0, idle_timeout_seconds: 30 }));
  await until("both to be parked and their process gone", async () => {
    clock.advance(1_000);
    return on.ctx.supervisor.live().every(({ kind }) => kind !== "fake_serving");
  });
  expect(await ledger(on)).toEqual({});
  const [poet = "", clerk = ""] = ids;
  const requests = Array.from({ length: 40 }, (_, i) =>
    i % 2 === 0 ? chat(on, poet, "poet") : chat(on, clerk, "clerk"),
  );
  const ticking = setInterval(() => clock.advance(1_000), 20);
  const statuses = (await Promise.all(requests)).map(({ status }) => status);
  clearInterval(ticking);
  expect(new Set(statuses)).toEqual(new Set([200]));
  expect(on.starts()).toHaveLength(2);
});

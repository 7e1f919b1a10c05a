/** The standby process of a parked deployment on a GPU. The card and the processes are fakes, the ledger is real. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { type DeployingApp, manyDeploying } from "../../../../../test/fake_replicas.ts";
import { fakeClock, until } from "../../../../../test/harness.ts";
import type { Gpu } from "../../../../platform/machine/hardware.ts";
import * as gpu from "../../../machines/gpu/service.ts";

setDefaultTimeout(120_000); // each starts processes
const { open, closeAll } = manyDeploying();
afterEach(closeAll);

const MIB = 1_048_576;
const card: Gpu = {
  index: 0,
  uuid: "GPU-0",
  name: "NVIDIA H200",
  type: "H200",
  memoryTotalMib: 4096,
  memoryUsedMib: 0,
  utilizationPercent: 0,
  temperatureCelsius: 30,
  powerWatts: 80,
  driverVersion: "1",
};
const ON = { "serving.standby_card": true, "gpu.reserve_mib": 0 };

/** A deployment that is parked on the card, and its standby process. */
async function parked(flags: Record<string, unknown>) {
  const clock = fakeClock();
  const on = await open({ clock, flags });
  gpu.useProbe(on.ctx, async () => [card]);
  const id = await on.deploy({ min_replicas: 0, idle_timeout_seconds: 60 });
  await on.reaches(id, "serving");
  await until("it to be parked", async () => {
    clock.advance(30_000);
    return (await on.call("GET", `/v1/deployments/${id}`)).body.parked === true;
  });
  const spare = await until("the standby process", () => {
    clock.advance(1_000);
    return on.ctx.state.deployments.spare;
  });
  return { on, clock, id, spare };
}
const leases = async (on: DeployingApp) =>
  (await on.call("GET", "/v1/gpu")).body.data[0].leases.map(({ kind, bytes }: { kind: string; bytes: number }) => [
    kind,
    bytes / MIB,
  ]);
/** The lease of the process that was parked has ended by then. */
const leased = (on: DeployingApp) =>
  until("its lease alone", async () => {
    const kinds = (await leases(on)).map(([kind]: [string]) => kind);
    return kinds.length === 1 && kinds[0] === "standby";
  });
const wake = (on: DeployingApp, id: string) =>
  on.call("POST", `/v1/deployments/${id}/chat/completions`, {
    model: "d",
    messages: [{ role: "user", content: "hi" }],
  });

test("it leases the memory of a context until a wake takes it", async () => {
  const { on, id, spare } = await parked(ON);
  await leased(on);
  expect(await leases(on)).toEqual([["standby", 576]]);
  expect((await wake(on, id)).status).toBe(200);
  expect(on.ctx.state.deployments.spare).toBeUndefined();
  expect(on.starts().at(-1)).toBe(spare.worker.pid); // the same process serves now
  expect((await leases(on)).map(([kind]: [string]) => kind)).toEqual(["deployment"]);
});

test("without the setting it leases nothing", async () => {
  const { on, spare } = await parked({ "gpu.reserve_mib": 0 });
  await spare.worker.ready;
  expect(spare.holder).toBeUndefined();
  expect((await leases(on)).filter(([kind]: [string]) => kind === "standby")).toEqual([]);
});

test("a killed one gives its lease back, and the next one comes after a pause", async () => {
  const { on, clock, spare } = await parked(ON);
  await leased(on);
  process.kill(spare.worker.pid, "SIGKILL");
  await until("the lease to be free", async () => (await leases(on)).length === 0);
  expect(on.ctx.state.deployments.spare).toBeUndefined();
  clock.advance(61_000);
  const next = await until("the next one", () => {
    clock.advance(1_000);
    return on.ctx.state.deployments.spare;
  });
  expect(next.worker.pid).not.toBe(spare.worker.pid);
  await leased(on);
});

test("it gives way to a holder that needs the memory, and holds none for a while", async () => {
  const { on, clock, spare } = await parked(ON);
  await leased(on);
  const request = { holder: "job", kind: "training_job", workspaceId: on.workspaceA, bytes: 4000 * MIB, gpuCount: 1 };
  const grant = await gpu.acquire(on.ctx, { ...request, priority: 0, pinned: false, mayEvict: true });
  expect(grant.status).toBe("granted");
  expect((await leases(on)).map(([kind]: [string]) => kind)).toEqual(["training_job"]);
  gpu.release(on.ctx, "job");
  const next = await until("another one", () => {
    clock.advance(1_000);
    const { spare: now } = on.ctx.state.deployments;
    return now !== spare ? now : undefined;
  });
  await next.worker.ready;
  expect((await leases(on)).filter(([kind]: [string]) => kind === "standby")).toEqual([]);
});

test("one that has read a model serves no other one, which may belong to another workspace", async () => {
  const { on, id, spare } = await parked(ON);
  expect(spare.model).toEndWith("random.gguf");
  spare.model = "another.gguf";
  expect((await wake(on, id)).status).toBe(200);
  expect(on.starts().at(-1)).not.toBe(spare.worker.pid);
});

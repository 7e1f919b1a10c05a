import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { type DeployingApp, manyDeploying } from "../../../../../test/fake_replicas.ts";
import { fakeClock, until } from "../../../../../test/harness.ts";
import * as billing from "../../../money/billing/service.ts";
import { liveOf } from "./fleet.ts";

setDefaultTimeout(120_000); // each starts processes
const CHAT = { model: "d", messages: [{ role: "user", content: "hi" }] };
const { open, closeAll } = manyDeploying();
const app = (options: Parameters<typeof open>[0] = {}) =>
  open({ ...options, flags: { "billing.local_rate_usd_per_hour": -1 } });
afterEach(closeAll);

const spendAll = (on: DeployingApp) => billing.grant(on.ctx, { workspaceId: on.workspaceA, usd: -1000 });
const repay = (on: DeployingApp) => billing.grant(on.ctx, { workspaceId: on.workspaceA, usd: 1000 });
const BROKE = [402, "insufficient_credits"];
const seen = ({ status, body }: { status: number; body: { error: { code: string } } }) => [status, body.error.code];

test("without credit nothing is deployed, and what was stopped stays so", async () => {
  const on = await app();
  const id = await on.deploy();
  await on.reaches(id, "serving");
  await on.call("POST", `/v1/deployments/${id}/stop`);
  spendAll(on);
  expect(seen(await on.call("POST", "/v1/deployments", { model: "random", name: "e" }))).toEqual(BROKE);
  expect(seen(await on.call("POST", `/v1/deployments/${id}/start`))).toEqual(BROKE);
  expect((await on.call("GET", `/v1/deployments/${id}`)).body.status).toBe("stopped");
  expect((await on.call("GET", "/v1/deployments")).body.data).toHaveLength(1);
  repay(on);
  expect((await on.call("POST", `/v1/deployments/${id}/start`)).status).toBe(200);
});

test("without credit a parked deployment is not woken, and says so; with credit it is", async () => {
  const clock = fakeClock();
  const on = await app({ clock });
  const id = await on.deploy({ min_replicas: 0, idle_timeout_seconds: 10 });
  await on.reaches(id, "serving");
  const ask = (more = {}) => on.call("POST", `/v1/deployments/${id}/chat/completions`, { ...CHAT, ...more });
  expect((await ask()).status).toBe(200);
  await until("it to be parked", async () => {
    clock.advance(1_000);
    return (await on.call("GET", `/v1/deployments/${id}`)).body.parked;
  });
  spendAll(on);
  expect(seen(await ask())).toEqual(BROKE);
  expect(seen(await ask({ stream: true }))).toEqual(BROKE);
  expect(liveOf(on.ctx, id).held.size + liveOf(on.ctx, id).flights.size).toBe(0);
  expect((await on.call("GET", `/v1/deployments/${id}`)).body.parked).toBe(true);
  repay(on);
  expect((await ask()).status).toBe(200);
});

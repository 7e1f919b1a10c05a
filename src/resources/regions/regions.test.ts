import { afterAll, expect, test } from "bun:test";
import { fakeClock, testApp } from "../../../test/harness.ts";
import { RegionsState } from "./live.ts";
import * as regions from "./service.ts";

const H200 = { type: "H200" };
const clock = fakeClock();
const app = testApp({ clock });
afterAll(async () => {
  await app.close();
  app.remove();
});

test("this machine is the one region", async () => {
  const { status, body } = await app.call("GET", "/v1/regions");
  expect(status).toBe(200);
  expect(body).toMatchObject({ object: "list", has_more: false });
  expect(body.data).toHaveLength(1);
  expect(body.data[0]).toMatchObject({ object: "region", id: "local", provider: "local", available: true });
  expect(body.data[0].gpu_types).toBeArray();
  expect((await app.call("GET", "/v1/regions/local")).body).toEqual(body.data[0]);
  expect((await app.call("GET", "/v1/regions/mars")).status).toBe(404);
});

test("the list pages like every other", async () => {
  expect((await app.call("GET", "/v1/regions?after=local")).body.data).toEqual([]);
  const strange = await app.call("GET", "/v1/regions?after=mars");
  expect([strange.status, strange.body.error.code]).toEqual([400, "invalid_cursor"]);
  const greedy = await app.call("GET", "/v1/regions?limit=101");
  expect([greedy.status, greedy.body.error.param]).toEqual([422, "limit"]);
});

test("GPUs are asked for once a minute, and equal ones are named once", async () => {
  const ctx = { ...app.ctx, state: { ...app.ctx.state, regions: new RegionsState() } };
  let calls = 0;
  const probe = async () => {
    calls++;
    return [H200, H200];
  };
  expect((await regions.mustGet(ctx, app.workspaceA, "local", probe)).gpu_types).toEqual(["H200"]);
  await Promise.all([
    regions.mustGet(ctx, app.workspaceA, "local", probe),
    regions.mustGet(ctx, app.workspaceA, "local", probe),
  ]);
  expect(calls).toBe(1);
  clock.advance(60_001);
  await Promise.all([
    regions.mustGet(ctx, app.workspaceA, "local", probe),
    regions.mustGet(ctx, app.workspaceA, "local", probe),
  ]);
  expect(calls).toBe(2);
});

test("a driver that hangs delays the answer by two seconds at most, and is not asked twice at once", async () => {
  const ctx = { ...app.ctx, state: { ...app.ctx.state, regions: new RegionsState() } };
  let calls = 0;
  const driver = Promise.withResolvers<(typeof H200)[]>();
  const probe = () => {
    calls++;
    return driver.promise;
  };
  const first = regions.mustGet(ctx, app.workspaceA, "local", probe);
  clock.advance(2_000);
  expect((await first).gpu_types).toEqual([]);
  const second = regions.mustGet(ctx, app.workspaceA, "local", probe);
  driver.resolve([H200]);
  expect((await second).gpu_types).toEqual(["H200"]);
  expect(calls).toBe(1);
});

test("a driver that fails leaves the last answer standing", async () => {
  const ctx = { ...app.ctx, state: { ...app.ctx.state, regions: new RegionsState() } };
  await regions.mustGet(ctx, app.workspaceA, "local", async () => [H200]);
  clock.advance(60_001);
  const broken = () => Promise.reject(new Error("driver mismatch"));
  expect((await regions.mustGet(ctx, app.workspaceA, "local", broken)).gpu_types).toEqual(["H200"]);
});

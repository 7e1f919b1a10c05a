import { afterEach, beforeEach, expect, test } from "bun:test";
import { fakeClock, type TestApp, testApp } from "../../../../../test/harness.ts";
import { addEndpoint, emitCompleted, TLS_FLAGS } from "../../../../../test/webhooks_kit.ts";
import { deliver } from "./deliver.ts";
import { scanEndpoints } from "./due.ts";
import { fanOut } from "./fan_out.ts";
import { close } from "./live.ts";

const clock = fakeClock(Date.now());
const never = new AbortController().signal;
let app: TestApp;
beforeEach(() => {
  app = testApp({ clock, flags: TLS_FLAGS });
});
afterEach(async () => {
  await close(app.ctx, AbortSignal.abort());
  await app.close().then(app.remove);
});

test("however many endpoints wait, each is scanned in its turn, a thousand at a time", async () => {
  const { ctx } = app;
  const ids = Array.from(
    { length: 1_500 },
    () => addEndpoint(ctx, { url: "https://127.0.0.2:9/hook", eventTypes: [], workspaceId: app.workspaceA }).id,
  ).sort();
  emitCompleted(ctx, app.workspaceA);
  await fanOut(ctx);
  const first = scanEndpoints(ctx.db, "", clock.now());
  expect([first.endpointIds.length, first.last]).toEqual([1_000, ids[999]!]);
  const second = scanEndpoints(ctx.db, first.last, clock.now());
  expect([second.endpointIds.length, second.last]).toEqual([500, ""]);
  expect([...first.endpointIds, ...second.endpointIds]).toEqual(ids);
  const woken = () => app.woken.filter((loop) => loop === "webhooks.deliver").length;
  const before = woken();
  await deliver(ctx, never);
  expect(woken()).toBeGreaterThan(before); // the loop goes on at once
});

import { afterEach, beforeEach, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { fakeClock, type TestApp, testApp } from "../../../../test/harness.ts";
import { addEndpoint, emitCompleted, startTlsReceiver, TLS_FLAGS } from "../../../../test/webhooks_kit.ts";
import { isDirty, write } from "../../../platform/db/db.ts";
import { failpoints } from "../../../platform/failpoint.ts";
import { webhookDeliveries } from "../table.ts";
import { deliver } from "./deliver.ts";
import { fanOut } from "./fan_out.ts";
import { close, liveOf, quiet } from "./live.ts";

const clock = fakeClock(Date.now());
const never = new AbortController().signal;
let app: TestApp;
let receiver: ReturnType<typeof startTlsReceiver>;
beforeEach(() => {
  app = testApp({ clock, flags: TLS_FLAGS });
  receiver = startTlsReceiver();
});
afterEach(async () => {
  delete failpoints.hit;
  await close(app.ctx, AbortSignal.abort());
  await receiver.stop();
  await app.close().then(app.remove);
});

const queue = async (count: number) => {
  addEndpoint(app.ctx, { url: receiver.url, workspaceId: app.workspaceA });
  const events = Array.from({ length: count }, () => {
    clock.advance(1);
    return emitCompleted(app.ctx, app.workspaceA);
  });
  await fanOut(app.ctx);
  return events;
};
const lane = () => [...liveOf(app.ctx.db).lanes.values()][0];
const look = async (wake: (loop: string) => void = () => {}) => {
  await deliver({ ...app.ctx, wake }, never);
  const woken = liveOf(app.ctx.db).flights.size;
  await quiet(liveOf(app.ctx.db));
  return woken;
};
const settle = (eventId: string) =>
  write(app.ctx.db, (tx) => {
    const done = { status: "cancelled", dueAt: null } as const;
    tx.update(webhookDeliveries).set(done).where(eq(webhookDeliveries.eventId, eventId)).run();
  });

test("what was read ahead is sent in its order, each once", async () => {
  const events = await queue(40);
  for (let i = 0; i < 12; i++) await look();
  expect(receiver.got.map(({ headers }) => headers.get("webhook-id")).sort()).toEqual(events);
  expect(receiver.got.slice(0, 1).map(({ headers }) => headers.get("webhook-id"))).toEqual(events.slice(0, 1));
  expect(await look()).toBe(0);
});

test("what has settled since it was read is not sent, and the loop looks again at once for the others", async () => {
  const events = await queue(4);
  await look(); // one: it is new; the next two are read ahead
  expect(lane()?.ahead).toHaveLength(2);
  for (const each of events.slice(1, 3)) settle(each);
  const woken: string[] = [];
  expect(await look((loop) => void woken.push(loop))).toBe(0);
  expect(woken).toEqual(["webhooks.deliver", "webhooks.deliver"]);
  await look();
  expect(receiver.got.map(({ headers }) => headers.get("webhook-id"))).toEqual([events[0]!, events[3]!]);
});

test("nothing is sent before all but the ends of attempts is on the disk", async () => {
  const dirty: boolean[] = [];
  failpoints.hit = (name) => {
    if (name === "http.before_send") dirty.push(isDirty(app.ctx.db));
  };
  await queue(1);
  emitCompleted(app.ctx, app.workspaceA);
  await look();
  expect(dirty).toEqual([false]);
});

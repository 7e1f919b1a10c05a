import { afterEach, beforeEach, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { fakeClock, type TestApp, testApp } from "../../../../../test/harness.ts";
import { addEndpoint, emitCompleted, startTlsReceiver, TLS_FLAGS } from "../../../../../test/webhooks_kit.ts";
import { isDirty, write } from "../../../../platform/db/db.ts";
import { failpoints } from "../../../../platform/failpoint.ts";
import { find } from "../service.ts";
import { webhookDeliveries } from "../table.ts";
import { deliver } from "./deliver.ts";
import { readDue, scanEndpoints } from "./due.ts";
import { FIRST_TURN, LIMITS } from "./fairness.ts";
import { fanOut } from "./fan_out.ts";
import { close } from "./live.ts";

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
/** Runs one tick and waits for its attempts; returns how many requests were received. */
const tick = async (wake: (loop: string) => void = () => {}) => {
  const before = receiver.got.length;
  await deliver({ ...app.ctx, wake }, never);
  await app.ctx.state.webhooks.idle();
  return receiver.got.length - before;
};
const receivedIds = () => receiver.got.map(({ headers }) => headers.get("webhook-id")!);
const settle = (eventId: string) =>
  write(app.ctx.db, (tx) => {
    const done = { status: "cancelled", dueAt: null } as const;
    tx.update(webhookDeliveries).set(done).where(eq(webhookDeliveries.eventId, eventId)).run();
  });

test("deliveries are sent oldest first, each once", async () => {
  const events = await queue(40);
  for (let i = 0; i < 12; i++) await tick();
  expect(receivedIds().sort()).toEqual(events);
  expect(receivedIds().slice(0, 1)).toEqual(events.slice(0, 1));
  expect(await tick()).toBe(0);
});

test("what settles between two ticks is not sent", async () => {
  const events = await queue(4);
  await tick(); // one: the endpoint is new
  for (const each of events.slice(1, 3)) settle(each);
  const woken: string[] = [];
  expect(await tick((loop) => void woken.push(loop))).toBe(0); // both were read ahead
  expect(woken).toContain("webhooks.deliver");
  expect(await tick()).toBe(1);
  expect(receivedIds()).toEqual([events[0]!, events[3]!]);
});

test("what settles while the flush runs is not sent, and the loop runs again at once for the others", async () => {
  const events = await queue(2);
  failpoints.hit = (name) => {
    if (name !== "db.before_flush") return;
    delete failpoints.hit;
    settle(events[0]!);
  };
  emitCompleted(app.ctx, app.workspaceA); // so that there is something to flush
  const woken: string[] = [];
  expect(await tick((loop) => void woken.push(loop))).toBe(0);
  expect(woken).toEqual(["webhooks.deliver"]);
  expect(await tick()).toBe(1);
  expect(receivedIds()).toEqual([events[1]!]);
});

test("nothing is sent before everything but results of attempts is on the disk", async () => {
  const dirty: boolean[] = [];
  failpoints.hit = (name) => {
    if (name === "http.before_send") dirty.push(isDirty(app.ctx.db));
  };
  await queue(1);
  emitCompleted(app.ctx, app.workspaceA);
  await tick();
  expect(dirty).toEqual([false]);
});

test("rows are read only of endpoints whose turn comes, and no more than may start", async () => {
  const ids = ["a", "b", "c"].map(
    (name) => addEndpoint(app.ctx, { id: `whk_${name}`, workspaceId: app.workspaceA }).id,
  );
  for (let i = 0; i < 5; i++) emitCompleted(app.ctx, app.workspaceA);
  await fanOut(app.ctx);
  const now = clock.now();
  const active = app.ctx.state.webhooks.activeEndpoints(
    scanEndpoints(app.ctx.db, "", now).endpointIds,
    (id) => find(app.ctx, id),
    now,
  );
  const read = readDue(app.ctx.db, active, { ...FIRST_TURN, fresh: "whk_a" }, { ...LIMITS, fresh: 4 }, now);
  expect(read.queues.map(({ endpointId, due }) => [endpointId, due.length])).toEqual([
    [ids[0]!, 0],
    [ids[1]!, 1],
    [ids[2]!, 1],
  ]);
});

test("rows are read ahead: several attempts of an endpoint need one read, until something has changed", async () => {
  await queue(5);
  const { webhooks } = app.ctx.state;
  const now = clock.now();
  const dueIds = () => {
    const { endpointIds } = scanEndpoints(app.ctx.db, "", now);
    const active = webhooks.activeEndpoints(endpointIds, (id) => find(app.ctx, id), now);
    const { queues } = readDue(app.ctx.db, active, FIRST_TURN, LIMITS, now);
    return queues.flatMap(({ due }) => due);
  };
  const [first] = dueIds();
  webhooks.take(first!);
  const rows = app.ctx.db.select().from(webhookDeliveries).all();
  expect(dueIds().map(({ id }) => id)).toEqual([rows[1]!.id]); // a new endpoint has one attempt at once
  app.ctx.db.$client.run("UPDATE webhook_deliveries SET due_at = due_at - 1000 WHERE id = ?", [rows[4]!.id]);
  expect(dueIds().map(({ id }) => id)).toEqual([rows[1]!.id]);
  webhooks.forgetAhead(first!.endpointId);
  expect(dueIds().map(({ id }) => id)).toEqual([rows[4]!.id]);
});

test("an endpoint that is not enabled has nothing due", async () => {
  await queue(1);
  app.ctx.db.$client.run("UPDATE webhook_endpoints SET status = 'disabled'");
  const now = clock.now();
  const active = app.ctx.state.webhooks.activeEndpoints(
    scanEndpoints(app.ctx.db, "", now).endpointIds,
    (id) => find(app.ctx, id),
    now,
  );
  const { queues } = readDue(app.ctx.db, active, FIRST_TURN, LIMITS, now);
  expect(queues.map(({ due }) => due.length)).toEqual([0]);
});

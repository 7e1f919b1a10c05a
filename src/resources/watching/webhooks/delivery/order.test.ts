import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { fakeClock, type TestApp, testApp } from "../../../../../test/harness.ts";
import { addEndpoint, answerOf, emitCompleted } from "../../../../../test/webhooks_kit.ts";
import { durable } from "../../../../platform/db/db.ts";
import { failpoints } from "../../../../platform/failpoint.ts";
import { purge } from "../../../../purge.ts";
import { webhookDeliveries } from "../table.ts";
import { deliver, rest } from "./deliver.ts";
import { fanOut } from "./fan_out.ts";
import { prune } from "./prune.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const SINCE = { since: "2020-01-01T00:00:00Z" };
const never = new AbortController().signal;

let app: TestApp;
let clock: ReturnType<typeof fakeClock>;
let answered: PromiseWithResolvers<void> | undefined; // none: at once
beforeEach(() => {
  clock = fakeClock();
  answered = undefined;
  app = testApp({ clock });
  Object.assign(app.ctx, { dial: () => (answered?.promise ?? Promise.resolve()).then(() => answerOf(204)) });
});
afterEach(async () => {
  await app.ctx.state.webhooks.idle();
  await app.close().then(app.remove);
});

const post = async (path = "", json?: unknown) => (await app.call("POST", `/v1/webhooks${path}`, json)).body;
const make = async (): Promise<string> => (await post("", { url: "https://203.0.114.7/hook" })).id;
const enable = (id: string, enabled: boolean) => app.call("PATCH", `/v1/webhooks/${id}`, { enabled });
const happen = () => emitCompleted(app.ctx, app.workspaceA);
const rows = () => app.ctx.db.select().from(webhookDeliveries).all();
const sendAll = async () => {
  await fanOut(app.ctx);
  await deliver(app.ctx, never);
  await app.ctx.state.webhooks.idle();
};

describe("when the clock is set back", () => {
  test("an endpoint gets all that happens from then on", async () => {
    happen(); // before it was there
    await make();
    clock.set(-HOUR);
    const id = happen();
    await sendAll();
    expect(rows()).toMatchObject([{ eventId: id, status: "succeeded" }]);
  });

  test("what came while it was disabled arrives once it is enabled again", async () => {
    const endpoint = await make();
    await enable(endpoint, false);
    clock.set(-HOUR);
    happen();
    await fanOut(app.ctx);
    await enable(endpoint, true);
    clock.advance(1000); // the key's limit of requests too
    await post(`/${endpoint}/recover`, SINCE);
    await sendAll();
    expect(rows()).toMatchObject([{ status: "succeeded", attemptCount: 1 }]);
  });

  test("one that is wanted by hand is sent at once", async () => {
    const endpoint = await make();
    const { id } = await post(`/${endpoint}/test`);
    await post(`/${endpoint}/deliveries/${id}/resend`);
    clock.set(-HOUR);
    await post(`/${endpoint}/deliveries/${id}/resend`);
    await sendAll();
    expect(rows()).toMatchObject([{ status: "succeeded", attemptCount: 1 }]);
  });

  test("what is left of a disabled endpoint is held soon all the same", async () => {
    const endpoint = await make();
    await sendAll();
    await post(`/${endpoint}/test`);
    clock.set(-HOUR);
    clock.advance(1_000);
    app.ctx.db.$client.run("UPDATE webhook_endpoints SET status = 'disabled'");
    await sendAll();
    expect(rows()).toMatchObject([{ status: "pending", dueAt: null }]);
  });
});

test("what arrived long ago is not sent again by a recovery, though nobody remembers that it did", async () => {
  const endpoint = await make();
  happen();
  await sendAll();
  clock.advance(40 * DAY);
  await prune(app.ctx);
  expect(rows()).toEqual([]);
  expect((await post(`/${endpoint}/recover`, SINCE)).count).toBe(0);
  await sendAll();
  expect(rows()).toEqual([]);
});

test("a rest after a long tick leaves no listener on the signal", async () => {
  const { signal } = new AbortController();
  const [added, removed] = [[] as unknown[], [] as unknown[]];
  signal.addEventListener = (_: string, listener: unknown) => void added.push(listener);
  signal.removeEventListener = (_: string, listener: unknown) => void removed.push(listener);
  await rest(3, signal);
  expect(added.length).toBeGreaterThan(0);
  expect(removed).toEqual(added);
});

test("many that nobody acknowledged in time are done with in one go, not a few each half second", async () => {
  await make();
  for (let i = 0; i < 500; i++) happen();
  await fanOut(app.ctx);
  clock.advance(3 * DAY);
  const fresh = happen();
  await fanOut(app.ctx);
  for (let woken = -1; woken !== app.woken.length; ) {
    woken = app.woken.length;
    await sendAll();
  }
  expect(rows().filter(({ status }) => status === "exhausted")).toHaveLength(500);
  expect(rows().filter(({ status }) => status === "succeeded")).toMatchObject([{ eventId: fresh }]);
});

test("a look ends a few of those at most, of however many endpoints", async () => {
  for (let i = 0; i < 10; i++) await make();
  for (let i = 0; i < 100; i++) happen();
  await fanOut(app.ctx);
  clock.advance(3 * DAY);
  await deliver(app.ctx, never);
  const ended = rows().filter(({ status }) => status === "exhausted").length;
  expect([ended > 0, ended <= 200]).toEqual([true, true]);
});

test("many events for many endpoints become deliveries a thousand or so to a commit, each once", async () => {
  for (let i = 0; i < 30; i++) addEndpoint(app.ctx, { workspaceId: app.workspaceA });
  for (let i = 0; i < 100; i++) happen();
  await durable(app.ctx.db);
  const sizes: number[] = [];
  let before = 0;
  failpoints.hit = (name) => {
    if (name !== "db.before_commit") return;
    const { length } = rows();
    sizes.push(length - before);
    before = length;
  };
  await fanOut(app.ctx).then(() => durable(app.ctx.db));
  delete failpoints.hit;
  expect(rows()).toHaveLength(3_000);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(1_030);
});

test("what is under way while its workspace goes ends by its own outcome, and nothing more is sent", async () => {
  await make();
  answered = Promise.withResolvers();
  for (let i = 0; i < 3; i++) happen();
  await fanOut(app.ctx);
  await deliver(app.ctx, never);
  await app.call("DELETE", `/v1/workspaces/${app.workspaceA}`, undefined, { key: app.adminKey });
  await purge(app.ctx);
  answered.resolve();
  await app.ctx.state.webhooks.idle();
  await sendAll();
  expect(rows().map(({ status, attemptCount }) => `${status} ${attemptCount}`)).toEqual([
    "succeeded 1",
    "cancelled 0",
    "cancelled 0",
  ]);
});

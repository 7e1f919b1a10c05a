import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { fakeClock, type TestApp, testApp, until } from "../../../../../test/harness.ts";
import { tickOf } from "../../../../../test/loops_kit.ts";
import { addEndpoint, emitCompleted, startTlsReceiver, TLS_FLAGS } from "../../../../../test/webhooks_kit.ts";
import { verify } from "../../../../lib/webhooks/signature.ts";
import { failpoints } from "../../../../platform/failpoint.ts";
import { webhookAttempts, webhookBodies, webhookDeliveries, webhookEndpoints } from "../table.ts";
import { deliver } from "./deliver.ts";
import { fanOut } from "./fan_out.ts";
import { close } from "./live.ts";
import { prune } from "./prune.ts";

const clock = fakeClock(Date.now());
const never = new AbortController().signal;
const opened: { stop: () => Promise<void> }[] = [];
let app: TestApp;
beforeEach(() => {
  app = testApp({ clock, flags: TLS_FLAGS });
});
afterEach(async () => {
  await close(app.ctx, AbortSignal.abort());
  for (const each of opened.splice(0)) await each.stop();
  await app.close().then(app.remove);
});

const receiver = (...args: Parameters<typeof startTlsReceiver>) => {
  const started = startTlsReceiver(...args);
  opened.push(started);
  return started;
};
const add = (url: string, eventTypes: string[] = []) =>
  addEndpoint(app.ctx, { url, eventTypes, workspaceId: app.workspaceA });
const happen = () => emitCompleted(app.ctx, app.workspaceA);
const send = async () => {
  await fanOut(app.ctx);
  await deliver(app.ctx, never);
};
const sendAll = async () => {
  await send();
  await app.ctx.state.webhooks.idle();
};
const deliveries = () => app.ctx.db.select().from(webhookDeliveries).all();
const attempts = () => app.ctx.db.select().from(webhookAttempts).all();
const endpoint = (id: string) => app.ctx.db.select().from(webhookEndpoints).where(eq(webhookEndpoints.id, id)).get()!;

describe("a delivery", () => {
  test("is signed, has the event's id, and says what the feed says", async () => {
    const { got, url } = receiver();
    const { secret } = add(`${url}/hook`);
    const id = happen();
    await sendAll();
    expect(got).toHaveLength(1);
    const [{ headers, body, path }] = got as [(typeof got)[number]];
    const nowSeconds = Math.floor(clock.now() / 1000);
    expect(verify({ headers, body: Buffer.from(body) }, { secrets: [secret], nowSeconds })).toEqual({
      valid: true,
      id,
    });
    expect([path, headers.get("content-type")]).toEqual(["/hook", "application/json"]);
    const { object: _, ...fed } = (await app.call("GET", "/v1/events?types=job.completed")).body.data[0];
    expect(JSON.parse(body)).toEqual(fed);
    expect(deliveries()).toMatchObject([{ status: "succeeded", attemptCount: 1, lastResponseCode: 204, dueAt: null }]);
    expect(attempts()).toMatchObject([{ number: 1, trigger: "scheduled", responseCode: 204, errorCode: null }]);
  });

  test("goes to those that want it, once each, and to none that came after the event", async () => {
    const { got, url } = receiver();
    add(`${url}/all`);
    add(`${url}/some`, ["job.completed"]);
    add(`${url}/other`, ["job.failed"]);
    happen();
    clock.advance(1);
    add(`${url}/late`);
    await sendAll();
    await sendAll();
    expect(got.map(({ path }) => path).sort()).toEqual(["/all", "/some"]);
  });

  test("that failed is made again when the schedule says: same id, same bytes, a new time and signature", async () => {
    const { got, url } = receiver((_, count) => new Response("no", { status: count < 2 ? 500 : 200 }));
    const { id } = add(url);
    happen();
    await sendAll();
    expect(deliveries()).toMatchObject([{ status: "pending", lastError: "The endpoint answered with status 500" }]);
    expect(endpoint(id).consecutiveFailures).toBe(1);
    for (const waitMs of [4_900, 200, 53_000, 14_000]) {
      clock.advance(waitMs);
      await sendAll();
    }
    expect(got).toHaveLength(3);
    for (const name of ["webhook-id", "body"])
      expect(new Set(got.map((each) => (name === "body" ? each.body : each.headers.get(name)))).size).toBe(1);
    expect(new Set(got.map(({ headers }) => headers.get("webhook-signature"))).size).toBe(3);
    expect(deliveries()).toMatchObject([{ status: "succeeded", attemptCount: 3, lastError: null }]);
    expect(endpoint(id).consecutiveFailures).toBe(0);
  });

  test("is not led elsewhere, and keeps a kilobyte of what was answered", async () => {
    const { got, url } = receiver(() => new Response("€".repeat(40_000), { status: 302, headers: { location: "/x" } }));
    add(`${url}/hook`);
    happen();
    await sendAll();
    expect(got.map(({ path }) => path)).toEqual(["/hook"]);
    const [attempt] = attempts();
    expect(attempt).toMatchObject({ responseCode: 302 });
    expect(Buffer.byteLength(attempt!.responseBody!)).toBeLessThanOrEqual(1026);
    expect(deliveries()).toMatchObject([{ status: "pending" }]);
  });

  test("to an address that is not allowed is an attempt that failed, and nothing is dialled", async () => {
    add("https://127.0.0.2:9/hook");
    happen();
    await sendAll();
    expect(attempts()).toMatchObject([{ responseCode: null, errorCode: "address_refused" }]);
  });

  test("conformance 15 (decided): at 410 the delivery has failed, the endpoint is disabled, and what waits goes on once it is enabled", async () => {
    let status = 410;
    const { url } = receiver(() => new Response(null, { status }));
    const { id } = add(url);
    for (let i = 0; i < 3; i++) happen();
    await sendAll();
    expect(endpoint(id)).toMatchObject({ status: "disabled", disabledReason: "gone", disabledAt: clock.now() });
    expect(
      deliveries()
        .map(({ status }) => status)
        .sort(),
    ).toEqual(["failed", "pending", "pending"]);
    expect(deliveries().every(({ dueAt }) => dueAt === null)).toBe(true);
    happen();
    await sendAll();
    expect(deliveries()).toHaveLength(3);
    status = 200;
    await app.call("PATCH", `/v1/webhooks/${id}`, { enabled: true });
    for (let i = 0; i < 3; i++) await sendAll();
    expect(
      deliveries()
        .map((row) => row.status)
        .sort(),
    ).toEqual(["failed", "succeeded", "succeeded"]);
  });

  test("P7 of an event before its endpoint was disabled waits until it is enabled again", async () => {
    const { got, url } = receiver();
    const { id } = add(url);
    happen();
    clock.advance(10);
    await app.call("PATCH", `/v1/webhooks/${id}`, { enabled: false });
    await sendAll();
    expect(deliveries()).toMatchObject([{ status: "pending", attemptCount: 0, dueAt: null }]);
    expect(got).toHaveLength(0);
    await app.call("PATCH", `/v1/webhooks/${id}`, { enabled: true });
    await sendAll();
    expect(deliveries()).toMatchObject([{ status: "succeeded", attemptCount: 1 }]);
  });

  test("D6 clock: what is due a year ahead is sent once the clock is right again", async () => {
    const { got, url } = receiver();
    add(url);
    const year = 365 * 86_400_000;
    clock.advance(year);
    happen();
    await fanOut(app.ctx);
    clock.advance(-year);
    await sendAll();
    expect(got).toHaveLength(1);
    expect(deliveries()).toMatchObject([{ status: "succeeded" }]);
  });

  test("clock: a jump of a year ahead does not exhaust what waits for its retry", async () => {
    const { got, url } = receiver((_, count) => new Response(null, { status: count === 0 ? 503 : 204 }));
    add(url);
    happen();
    await sendAll();
    clock.set(365 * 86_400_000);
    await tickOf(app.ctx, "webhooks.deliver");
    expect(deliveries()).toMatchObject([{ status: "pending", attemptCount: 1 }]);
    clock.advance(10_000);
    await tickOf(app.ctx, "webhooks.deliver");
    await app.ctx.state.webhooks.idle();
    expect(deliveries()).toMatchObject([{ status: "succeeded", attemptCount: 2 }]);
    expect(got).toHaveLength(2);
  });

  test("clock: a resend that was asked for a year ahead is sent once the clock is right again", async () => {
    const { got, url } = receiver();
    const { id } = add(url);
    happen();
    await sendAll();
    clock.set(365 * 86_400_000);
    const [delivery] = deliveries();
    expect((await app.call("POST", `/v1/webhooks/${id}/deliveries/${delivery?.id}/resend`)).status).toBeLessThan(300);
    clock.set(-365 * 86_400_000);
    clock.advance(60_000);
    await sendAll();
    expect(got).toHaveLength(2);
  });

  test("nobody acknowledged in 72 hours is exhausted, without a further attempt", async () => {
    const { got, url } = receiver();
    add(url);
    happen();
    await fanOut(app.ctx);
    clock.advance(72 * 3_600_000);
    await sendAll();
    expect(deliveries()).toMatchObject([{ status: "exhausted", attemptCount: 0 }]);
    expect(got).toHaveLength(0);
  });
});

test("P7 P17 fifty failed deliveries in a row disable an endpoint; retries of the same ones do not", async () => {
  const { url } = receiver(() => new Response(null, { status: 503 }));
  const { id } = add(url);
  for (let i = 0; i < 30; i++) happen();
  for (let i = 0; i < 30; i++) await sendAll();
  clock.advance(5_000);
  for (let i = 0; i < 30; i++) await sendAll();
  expect(attempts()).toHaveLength(60);
  expect(endpoint(id)).toMatchObject({ status: "enabled", consecutiveFailures: 30 });
  for (let i = 0; i < 30; i++) happen();
  for (let i = 0; i < 30; i++) await sendAll();
  expect(endpoint(id)).toMatchObject({
    status: "disabled",
    consecutiveFailures: 50,
    disabledReason: "consecutive_failures",
  });
  expect(attempts()).toHaveLength(80);
  expect(deliveries().every(({ status, dueAt }) => status === "pending" && dueAt === null)).toBe(true);
});

test("a connection is used again; one that the receiver closed meanwhile costs no attempt", async () => {
  let closes = false;
  const { got, url } = receiver(
    () => new Response(null, { status: 204, headers: closes ? { connection: "close" } : {} }),
  );
  const { id } = add(url);
  for (let i = 0; i < 4; i++, closes = i === 2) {
    happen();
    await sendAll();
  }
  expect(got).toHaveLength(4);
  expect(got[0]!.port).toBe(got[1]!.port!);
  expect(deliveries().map(({ status, attemptCount }) => `${status} ${attemptCount}`)).toEqual(
    Array.from({ length: 4 }, () => "succeeded 1"),
  );
  expect(endpoint(id).consecutiveFailures).toBe(0);
});

test("ten endpoints that never answer hold up nobody else", async () => {
  const hanging = receiver(() => new Promise<Response>(() => {}));
  const fine = receiver();
  for (let i = 0; i < 10; i++) add(`${hanging.url}/${i}`);
  for (let i = 0; i < 5; i++) add(`${fine.url}/${i}`);
  for (let i = 0; i < 20; i++) happen();
  await until("all that can be delivered", async () => {
    await send();
    return fine.got.length === 100;
  });
  await until("the tarpits to be tried", () => hanging.got.length >= 10);
  expect(app.ctx.state.webhooks.attempts).toBeGreaterThanOrEqual(10);
  expect(app.ctx.state.webhooks.attempts).toBeLessThan(100);
});

test("what is under way when the server stops leaves no trace, and is made again", async () => {
  const hanging = receiver(() => new Promise<Response>(() => {}));
  add(hanging.url);
  happen();
  await send();
  await until("the attempt", () => hanging.got.length === 1);
  await close(app.ctx, AbortSignal.abort());
  expect(attempts()).toEqual([]);
  expect(deliveries()).toMatchObject([{ status: "pending", attemptCount: 0, dueAt: expect.any(Number) }]);
});

test("while results cannot be written, nothing is sent again and again", async () => {
  const { got, url } = receiver(() => {
    failpoints.hit = (name) => {
      if (name === "db.before_commit") throw new Error("the disk is full");
    };
    return new Response(null, { status: 200 });
  });
  add(url);
  happen();
  await sendAll();
  delete failpoints.hit;
  expect(deliveries()).toMatchObject([{ status: "pending", attemptCount: 0 }]);
  clock.advance(29_000);
  await sendAll();
  expect(got).toHaveLength(1);
  clock.advance(1_000);
  await sendAll().finally(() => delete failpoints.hit);
  expect(got).toHaveLength(2);
});

test("one by hand is one attempt, whatever the delivery is, and a test goes to its endpoint alone", async () => {
  const { got, url } = receiver();
  const { id } = add(`${url}/one`, ["job.failed"]);
  add(`${url}/two`);
  expect((await app.call("POST", `/v1/webhooks/${id}/test`)).status).toBe(202);
  await sendAll();
  expect(got.map(({ path }) => path)).toEqual(["/one"]);
  const [{ id: delivery } = { id: "" }] = deliveries();
  await app.call("POST", `/v1/webhooks/${id}/deliveries/${delivery}/resend`);
  await sendAll();
  await sendAll();
  expect(got).toHaveLength(2);
  expect(attempts().map(({ trigger, number }) => `${number} ${trigger}`)).toEqual(["1 test", "2 manual"]);
  expect(deliveries()).toMatchObject([{ status: "succeeded", attemptCount: 2, scheduledCount: 1, resendAt: null }]);
});

test("what settled long ago is forgotten, with its bytes and with endpoints nobody has", async () => {
  const { url } = receiver();
  const { id } = add(url);
  add(`${url}/stays`);
  happen();
  await sendAll();
  await app.call("DELETE", `/v1/webhooks/${id}`);
  clock.advance(31 * 86_400_000);
  happen();
  await fanOut(app.ctx);
  await prune(app.ctx);
  expect(deliveries()).toHaveLength(1);
  expect(attempts()).toEqual([]);
  expect(app.ctx.db.select().from(webhookBodies).all()).toHaveLength(1);
  expect(app.ctx.db.select().from(webhookEndpoints).all()).toMatchObject([{ status: "enabled" }]);
});

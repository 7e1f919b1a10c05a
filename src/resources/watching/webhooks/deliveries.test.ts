import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { fakeClock, type TestApp, testApp, until } from "../../../../test/harness.ts";
import { callsOf, emitCompleted, NOWHERE, startTlsReceiver, TLS_FLAGS } from "../../../../test/webhooks_kit.ts";
import { transition } from "../../../events/lifecycle.ts";
import { newId } from "../../../lib/ids.ts";
import { verify } from "../../../lib/webhooks/signature.ts";
import { write } from "../../../platform/db/db.ts";
import { fanOut } from "./delivery/fan_out.ts";
import { deliveryMachine } from "./machine.ts";
import type { Delivery } from "./schema.ts";
import { type DeliveryRow, webhookAttempts, webhookDeliveries } from "./table.ts";

const DAY = 86_400_000;

let app: TestApp;
let clock: ReturnType<typeof fakeClock>;
beforeEach(() => {
  clock = fakeClock();
  app = testApp({ clock, flags: { "webhooks.max_per_workspace": 5 } });
});
afterEach(() => app.close().then(app.remove));

const { post, make, get, patch, rows } = callsOf(() => app);
const settle = (row: DeliveryRow, action: "succeed" | "fail" | "exhaust" | "cancel") =>
  write(app.ctx.db, (tx) =>
    transition(tx, deliveryMachine, action, { id: row.id, now: clock.now() }, { dueAt: null, attemptCount: 1 }),
  );
const append = async () => {
  const { body } = await app.call("POST", "/v1/datasets", { name: `d${crypto.randomUUID()}`, format: "prompt" });
  await app.call("POST", `/v1/datasets/${body.id}/rows`, { rows: [{ prompt: "a" }] });
};

describe("deliveries", () => {
  test("are listed newest first, fifty of them, each with its attempts in order", async () => {
    const { id } = await make();
    for (let i = 0; i < 52; i++) {
      await post(`/${id}/test`);
      clock.advance(1);
    }
    const newest = rows().at(-1)!;
    const attempt = { attemptedAt: 1, trigger: "test", durationMs: 7, responseBody: "no", errorCode: null } as const;
    for (const number of Array.from({ length: 60 }, (_, i) => i + 1))
      app.ctx.db
        .insert(webhookAttempts)
        .values({ ...attempt, deliveryId: newest.id, number, responseCode: 500, errorMessage: null })
        .run();
    const { data, has_more } = await get(`${id}/deliveries`);
    expect([data.length, has_more, data[0].id]).toEqual([50, true, newest.id]);
    expect(data[0].attempts.map((each: { number: number }) => each.number)).toEqual(
      Array.from({ length: 50 }, (_, i) => i + 11),
    );
    expect(data[1].attempts).toEqual([]);
  });

  test("are sent again by hand, whatever became of them; those of another endpoint are unknown", async () => {
    const [a, b] = [await make(), await make()];
    const { id: delivery } = (await post(`/${a.id}/test`)).body;
    settle(rows()[0]!, "exhaust");
    expect((await get(`${a.id}/deliveries`)).data[0]).toMatchObject({ exhausted: true, next_attempt_at: null });
    clock.advance(5 * DAY);
    const again = await post(`/${a.id}/deliveries/${delivery}/resend`);
    expect(again).toMatchObject({ status: 202, body: { status: "exhausted" } });
    expect(Date.parse(again.body.next_attempt_at)).toBe(clock.now());
    expect(rows()[0]?.resendAt).toBe(clock.now());
    expect((await post(`/${b.id}/deliveries/${delivery}/resend`)).status).toBe(404);
  });
});

describe("a filter of deliveries", () => {
  test("walks past what it does not want, and next_after goes on where the page ended", async () => {
    const { id } = await make();
    for (let i = 0; i < 4; i++) {
      await post(`/${id}/test`);
      clock.advance(1);
    }
    const [first, second, third] = rows();
    settle(first!, "fail");
    settle(third!, "fail");
    const page = await get(`${id}/deliveries?status=failed&limit=1`);
    expect([page.data.map((each: Delivery) => each.id), page.has_more]).toEqual([[third!.id], true]);
    const rest = await get(`${id}/deliveries?status=failed&limit=1&after=${page.next_after}`);
    expect([rest.data.map((each: Delivery) => each.id), rest.has_more, rest.next_after]).toEqual([
      [first!.id],
      false,
      null,
    ]);
    app.ctx.db.$client.run("UPDATE webhook_deliveries SET event_type = 'job.failed' WHERE id = ?", [second!.id]);
    const kind = await get(`${id}/deliveries?event_type=job.failed`);
    expect(kind.data.map((each: Delivery) => each.id)).toEqual([second!.id]);
    expect((await get(`${id}/deliveries?event_type=job.failed&status=succeeded`)).data).toEqual([]);
    expect((await get(`${id}/deliveries?status=lost`)).error.param).toBe("status");
  });

  test("ends a page early after many other rows", async () => {
    const { id } = await make();
    await post(`/${id}/test`);
    const [row] = rows();
    const copies = Array.from({ length: 5_005 }, (_, i) => {
      const at = row!.createdAt + 1 + i;
      return { ...row!, id: newId("dlv", at), eventId: newId("evt", at), createdAt: at };
    });
    for (const each of copies) app.ctx.db.insert(webhookDeliveries).values(each).run();
    settle(row!, "fail");
    const page = await get(`${id}/deliveries?status=failed`);
    expect([page.data, page.has_more]).toEqual([[], true]);
    const rest = await get(`${id}/deliveries?status=failed&after=${page.next_after}`);
    expect([rest.data.map((each: Delivery) => each.id), rest.has_more]).toEqual([[row!.id], false]);
  });
});

test("a delivery shows the request as a receiver verifies it, and no signature to a key that only reads", async () => {
  const { id, secret } = await make();
  const { id: delivery } = (await post(`/${id}/test`)).body;
  const path = `/v1/webhooks/${id}/deliveries/${delivery}`;
  const { request } = (await app.call("GET", path)).body;
  expect(request.url).toBe(NOWHERE);
  expect(JSON.parse(request.body)).toMatchObject({ type: "webhook.test", data: { id } });
  const body = new TextEncoder().encode(request.body);
  const nowSeconds = Math.floor(clock.now() / 1000);
  expect(verify({ headers: new Headers(request.headers), body }, { secrets: [secret], nowSeconds })).toMatchObject({
    valid: true,
  });
  const reader = (await app.call("POST", "/v1/api_keys", { name: "reader", scopes: ["read"] })).body.key;
  const seen = await app.call("GET", path, undefined, { key: reader });
  expect([seen.status, seen.body.request.headers["webhook-signature"]]).toEqual([200, "v1,****"]);
  expect((await app.call("GET", `/v1/webhooks/${(await make()).id}/deliveries/${delivery}`)).status).toBe(404);
  app.ctx.db.$client.run("DELETE FROM webhook_bodies");
  expect((await app.call("GET", path)).body.request.body).toBeNull();
});

describe("recovery", () => {
  test("sends again what did not arrive since then, and nothing else", async () => {
    const { id } = await make();
    const actions = ["fail", "cancel", "exhaust", "succeed"] as const;
    for (const [i, action] of actions.entries()) {
      clock.advance(1000);
      await post(`/${id}/test`);
      settle(rows()[i]!, action);
    }
    await post(`/${id}/test`);
    const since = new Date(rows()[1]!.eventCreatedAt).toISOString();
    const answer = await post(`/${id}/recover`, { since });
    expect(answer).toMatchObject({
      status: 202,
      body: { object: "webhook_recovery", endpoint_id: id, since, count: 2 },
    });
    expect(rows().map((row) => row.resendAt !== null)).toEqual([false, true, true, false, false]);
    expect((await post(`/${id}/recover`, { since: "yesterday" })).body.error.param).toBe("/since");
    for (const far of ["9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00+23:59"]) // in UTC in a year of other digits
      expect((await post(`/${id}/recover`, { since: far })).status).toBe(202);
  });

  test("brings back the events that came while it was disabled, each once", async () => {
    await append(); // before it was there
    clock.advance(1000);
    const { id } = await make({ event_types: ["dataset.rows_appended"] });
    clock.advance(1000);
    await patch(id, { enabled: false });
    clock.advance(1000);
    await append();
    await fanOut(app.ctx);
    clock.advance(4 * DAY);
    await append();
    await fanOut(app.ctx);
    expect(rows().filter((row) => row.status === "pending")).toEqual([]);
    await patch(id, { enabled: true });
    await append(); // not fanned out yet
    const since = "2020-01-01T00:00:00Z";
    expect((await post(`/${id}/recover`, { since })).body.count).toBe(2);
    expect(rows().map((row) => [row.status, row.resendAt === null])).toEqual([
      ["exhausted", false],
      ["pending", true],
    ]);
    await fanOut(app.ctx);
    expect(rows()).toHaveLength(3);
    app.ctx.db.$client.run("UPDATE webhook_deliveries SET resend_at = NULL, status = 'succeeded', due_at = NULL");
    expect((await post(`/${id}/recover`, { since })).body.count).toBe(0);
  });
});

test("an endpoint that said it is gone gets everything once it is back, over the real loops and the real network", async () => {
  let status = 410;
  const receiver = startTlsReceiver(() => new Response("so", { status }));
  const real = testApp({ loops: ["webhooks.fan_out", "webhooks.deliver"], flags: TLS_FLAGS });
  try {
    const call = async (method: string, path: string, json?: unknown) =>
      (await real.call(method, `/v1/webhooks${path}`, json)).body;
    const { id } = await call("POST", "", { url: `${receiver.url}/hook` });
    const complete = () => emitCompleted(real.ctx, real.workspaceA);
    const sent = [complete()];
    await until("it to be disabled", async () => (await call("GET", `/${id}`)).disabled_at);
    expect(await call("GET", `/${id}`)).toMatchObject({ enabled: false, disabled_reason: "gone" });
    sent.push(complete());
    await fanOut(real.ctx);
    status = 200;
    await call("PATCH", `/${id}`, { enabled: true });
    expect((await call("POST", `/${id}/recover`, { since: "2020-01-01T00:00:00Z" })).count).toBe(2);
    const list = async () => (await call("GET", `/${id}/deliveries`)).data as Delivery[];
    await until("both to arrive", async () => (await list()).every((each) => each.status === "succeeded"));
    const byEvent = new Map((await list()).map((each) => [each.event_id, each]));
    expect([...byEvent.keys()].sort()).toEqual([...sent].sort());
    expect(byEvent.get(sent[0]!)?.attempts).toMatchObject([
      { number: 1, trigger: "scheduled", response_code: 410, response_body: "so" },
      { number: 2, trigger: "manual", response_code: 200 },
    ]);
    expect(receiver.got.map(({ headers }) => headers.get("webhook-id")).sort()).toEqual([sent[0]!, ...sent].sort());
  } finally {
    await real.close();
    real.remove();
    receiver.stop();
  }
});

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { fakeClock, type TestApp, testApp } from "../../../../test/harness.ts";
import { callsOf, NOWHERE } from "../../../../test/webhooks_kit.ts";
import { events } from "../../../events/table.ts";
import { PUBLISHED_TYPES } from "../../../lib/webhooks/published.ts";
import { keyOf, maskSecret } from "../../../lib/webhooks/signature.ts";
import { write } from "../../../platform/db/db.ts";
import { purge } from "../../../purge.ts";
import { fanOut } from "./delivery/fan_out.ts";
import { cancelWaiting, holdWaiting, settleClosed } from "./delivery/held.ts";
import { requireReachable } from "./guard.ts";
import { PUBLISHED } from "./kinds.ts";
import { signingSecrets } from "./rotation.ts";
import { openSecrets } from "./sealing.ts";
import { find } from "./service.ts";

const DAY = 86_400_000;

let app: TestApp;
let clock: ReturnType<typeof fakeClock>;
beforeEach(() => {
  clock = fakeClock();
  app = testApp({ clock, flags: { "webhooks.max_per_workspace": 5 } });
});
afterEach(() => app.close().then(app.remove));

const { post, make, get, patch, rows } = callsOf(() => app);

describe("an endpoint", () => {
  test("shows its whole secret once; afterwards only when it is asked for", async () => {
    const made = await make({ description: "ours", event_types: ["job.failed", "job.failed"] });
    expect(keyOf(made.secret)).toBeDefined();
    expect(made).toMatchObject({
      object: "webhook_endpoint",
      url: NOWHERE,
      event_types: ["job.failed"],
      description: "ours",
      enabled: true,
      consecutive_failures: 0,
      disabled_at: null,
    });
    const masked = maskSecret(made.secret);
    expect((await get(made.id)).secret).toBe(masked);
    const listed = (await app.call("GET", "/v1/webhooks")).body.data;
    expect(listed.map((each: { secret: string }) => each.secret)).toEqual([masked]);
    expect((await patch(made.id, { description: "" })).body).toMatchObject({ secret: masked, description: "" });
    expect(await get(`${made.id}/secret`)).toEqual({ object: "webhook_secret", id: made.id, secret: made.secret });
  });

  test("P5 description: always a string, empty if none was given", async () => {
    expect((await make()).description).toBe("");
    for (const description of ["", null]) expect((await make({ description })).description).toBe("");
    const { id } = await make({ description: " ours " });
    expect((await get(id)).description).toBe("ours");
    expect((await patch(id, { description: "x".repeat(501) })).body.error.param).toBe("/description");
  });

  test.each([
    [
      "http://127.0.0.1:9/x",
      "url: must begin with https://. Notifications are sent over TLS only, also to addresses in network.allow. For development without TLS use `verk webhooks listen --forward URL`",
    ],
    [
      "https://127.0.0.2/",
      'url: loopback. Use an address that is publicly routable, or ask the operator to add "127.0.0.2" to network.allow',
    ],
    [
      "https://u:p@127.0.0.2/",
      "url: must not contain a user name or password. Use an https address that is publicly routable",
    ],
  ])("F21 rejecting %s says exactly what is needed", async (url, message) => {
    const allowed = {
      ...app.ctx,
      config: { ...app.ctx.config, network: { ...app.ctx.config.network, allow: ["127.0.0.1"] } },
    };
    expect(await requireReachable(allowed, url).catch((error: Error) => error.message)).toBe(message);
  });

  test("leaves no secret in a log, an event or the clear text of the database", async () => {
    const { id, secret } = await make();
    await post(`/${id}/test`);
    await get(`${id}/secret`);
    const kept = JSON.stringify([app.log, app.ctx.db.select().from(events).all(), find(app.ctx, id)]);
    expect(kept).toContain(id);
    for (const part of [secret, secret.slice("whsec_".length)]) expect(kept).not.toContain(part);
  });

  test("is not revealed to a key that can only read, nor shown to another workspace", async () => {
    const { id } = await make();
    const { key } = app.keyOf("alpha", ["read"]);
    const read = (path: string, as: string) => app.call("GET", `/v1/webhooks/${id}${path}`, undefined, { key: as });
    expect((await read("", key)).status).toBe(200);
    expect(await read("/secret", key)).toMatchObject({ status: 403, body: { error: { code: "missing_scope" } } });
    expect((await read("/secret", app.keyB)).status).toBe(404);
  });

  test("is made once for one Idempotency-Key, and the repeated answer has the masked secret", async () => {
    const header = { "idempotency-key": "once" };
    const [first, second] = [await post("", { url: NOWHERE }, header), await post("", { url: NOWHERE }, header)];
    const notice = expect.stringContaining("The secret is shown in full once");
    expect(second.body).toEqual({ ...first.body, secret: maskSecret(first.body.secret), notice });
    expect(second.headers.get("idempotent-replayed")).toBe("true");
    expect((await app.call("GET", "/v1/webhooks")).body.data).toHaveLength(1);
  });

  test.each([
    [{}, 422, "/url"],
    [{ url: 5 }, 422, "/url"],
    [{ url: NOWHERE, event_types: ["job.exploded"] }, 422, "/event_types/0"],
    [{ url: NOWHERE, event_types: ["job.created"] }, 422, "/event_types/0"],
    [{ url: "http://203.0.114.7/" }, 400, "/url"],
    [{ url: "https://user:pass@203.0.114.7/" }, 400, "/url"],
    [{ url: "https://127.0.0.1/" }, 400, "/url"],
    [{ url: "https://0x7f.1/" }, 400, "/url"],
    [{ url: "https://[::ffff:10.0.0.1]/" }, 400, "/url"],
    [{ url: "https://169.254.169.254/latest" }, 400, "/url"],
    [{ url: "https://localhost/" }, 400, "/url"],
    [{ url: "https://metadata.google.internal/" }, 400, "/url"],
  ])("refuses %j with %i and names %s", async (json, status, param) => {
    const answer = await post("", json);
    expect([answer.status, answer.body.error.param]).toEqual([status, param]);
    if (status === 400) expect(answer.body.error.code).toBe("url_not_allowed");
    const { id } = await make();
    if ("url" in json) expect((await patch(id, json)).status).toBe(status);
  });

  test("P16 address: may have a name that does not resolve yet, but none that leads inside", async () => {
    const judged = (lookup: () => Promise<{ address: string }[]>) =>
      requireReachable(app.ctx, "https://hooks.example.com/", { lookup });
    await judged(() => Promise.reject(new Error("ENOTFOUND")));
    await judged(async () => [{ address: "203.0.114.7" }]);
    const mixed = judged(async () => [{ address: "203.0.114.7" }, { address: "10.0.0.1" }]);
    expect(mixed).rejects.toThrow("leads to an address that is not allowed");
  });

  test("beyond the quota is refused until another goes", async () => {
    const made = [];
    for (let i = 0; i < 5; i++) made.push(await make());
    expect((await post("", { url: NOWHERE })).body.error.code).toBe("quota_exceeded");
    expect((await app.call("DELETE", `/v1/webhooks/${made[0].id}`)).body).toEqual({
      id: made[0].id,
      object: "webhook_endpoint",
      deleted: true,
    });
    expect((await post("", { url: NOWHERE })).status).toBe(201);
  });
});

test("the kinds that the command line knows are those of the catalogue", () => {
  expect<string[]>([...PUBLISHED_TYPES].sort()).toEqual([...PUBLISHED].sort());
});

describe("a rotation", () => {
  test("signs with both secrets until the grace is over, and answers masked", async () => {
    const { id, secret } = await make();
    const { body } = await post(`/${id}/rotate_secret`, { grace_period_seconds: 60 });
    const { secret: fresh } = await get(`${id}/secret`);
    expect(fresh).not.toBe(secret);
    expect(body.secret).toBe(maskSecret(fresh));
    const signing = () => signingSecrets(openSecrets(app.ctx, find(app.ctx, id)!), clock.now());
    expect(signing()).toEqual([fresh, secret]);
    clock.advance(60_000);
    expect(signing()).toEqual([fresh]);
  });

  test("without a body keeps the old one for a day; with no grace not at all", async () => {
    const { id, secret } = await make();
    expect((await post(`/${id}/rotate_secret`)).status).toBe(200);
    const signing = () => signingSecrets(openSecrets(app.ctx, find(app.ctx, id)!), clock.now());
    clock.advance(DAY - 1);
    expect(signing()).toContain(secret);
    await post(`/${id}/rotate_secret`, { grace_period_seconds: 0 });
    expect(signing()).toHaveLength(1);
    expect((await post(`/${id}/rotate_secret`, { grace_period_seconds: -1 })).body.error.param).toBe(
      "/grace_period_seconds",
    );
  });
});

describe("a test", () => {
  test("is a delivery to its endpoint alone, whatever the endpoint wants", async () => {
    const { id } = await make({ event_types: ["job.completed"] });
    await make();
    const answer = await post(`/${id}/test`);
    await fanOut(app.ctx);
    expect(answer).toMatchObject({
      status: 202,
      body: {
        object: "webhook_delivery",
        endpoint_id: id,
        event_type: "webhook.test",
        status: "pending",
        attempts: [],
      },
    });
    expect(rows().map((row) => [row.endpointId, row.trigger])).toEqual([[id, "test"]]);
    expect(app.woken).toContain("webhooks.deliver");
    const told = app.ctx.db.select().from(events).all().at(-1);
    expect([told?.id, told?.data]).toEqual([answer.body.event_id, { object: "webhook_endpoint", id }]);
  });

  test("is refused while the endpoint is disabled", async () => {
    const { id } = await make();
    await patch(id, { enabled: false });
    for (const path of ["/test", "/recover"])
      expect((await post(`/${id}${path}`, { since: "2026-01-01T00:00:00Z" })).body.error.code).toBe(
        "unsupported_state",
      );
  });
});

describe("disabling", () => {
  test("P7 by hand holds what waits and shows no disabled_at; enabling resumes it and forgets the failures", async () => {
    const { id } = await make();
    await post(`/${id}/test`);
    const off = (await patch(id, { enabled: false })).body;
    expect(off).toMatchObject({ enabled: false, disabled_at: null, disabled_reason: "by_hand" });
    expect((await get(`${id}/deliveries`)).data[0]).toMatchObject({ status: "pending", next_attempt_at: null });
    clock.advance(1000);
    app.ctx.db.$client.run("UPDATE webhook_endpoints SET consecutive_failures = 50, disabled_at = 5");
    expect((await patch(id, { enabled: true })).body).toMatchObject({
      enabled: true,
      consecutive_failures: 0,
      disabled_at: null,
      disabled_reason: null,
    });
    expect(rows()[0]).toMatchObject({ status: "pending", dueAt: clock.now() });
    expect(app.woken).toContain("webhooks.deliver");
  });

  test("P7 what is held for 72 hours is exhausted, also if the endpoint is enabled just then", async () => {
    const [off, back] = [await make(), await make()];
    for (const { id } of [off, back]) {
      await post(`/${id}/test`);
      await patch(id, { enabled: false });
    }
    clock.advance(3 * DAY - 1);
    await settleClosed(app.ctx);
    expect(rows().map((row) => row.status)).toEqual(["pending", "pending"]);
    clock.advance(1);
    await patch(back.id, { enabled: true });
    await settleClosed(app.ctx);
    expect(rows().map((row) => [row.status, row.lastError])).toEqual(
      Array(2).fill(["exhausted", "The endpoint did not acknowledge the event within 72 hours"]),
    );
  });

  test("with more than one commit's worth of deliveries holds, resumes and cancels the rest soon, and none of another", async () => {
    const [a, b] = [await make(), await make()];
    for (let i = 0; i < 5; i++) await post(`/${a.id}/test`);
    await post(`/${b.id}/test`);
    const setStatus = (status: string) =>
      app.ctx.db.$client.run("UPDATE webhook_endpoints SET status = ? WHERE id = ?", [status, a.id]);
    const due = () => rows().filter((row) => row.dueAt !== null);
    setStatus("disabled");
    expect(write(app.ctx.db, (tx) => holdWaiting(tx, a.id, clock.now(), 2))).toBe(2);
    expect(due()).toHaveLength(4);
    await settleClosed(app.ctx);
    expect(due().map((row) => row.endpointId)).toEqual([b.id]);
    setStatus("enabled");
    await settleClosed(app.ctx);
    expect(due()).toHaveLength(6);
    setStatus("deleted");
    expect(write(app.ctx.db, (tx) => cancelWaiting(tx, a.id, clock.now(), 2))).toBe(2);
    await settleClosed(app.ctx);
    expect(rows().filter((row) => row.status === "pending")).toEqual(due());
    expect(due().map((row) => row.endpointId)).toEqual([b.id]);
  });

  test("by deletion hides it, destroys its secrets and cancels what waits", async () => {
    const { id } = await make();
    await post(`/${id}/test`);
    await app.call("DELETE", `/v1/webhooks/${id}`);
    expect((await app.call("GET", `/v1/webhooks/${id}/deliveries`)).status).toBe(404);
    expect(find(app.ctx, id)).toMatchObject({ status: "deleted", secrets: "" });
    expect(rows()[0]?.status).toBe("cancelled");
    expect((await app.call("GET", "/v1/webhooks")).body.data).toEqual([]);
  });

  test("goes with its workspace", async () => {
    const { id } = await make();
    await app.call("DELETE", `/v1/workspaces/${app.workspaceA}`, undefined, { key: app.adminKey });
    await purge(app.ctx);
    expect(find(app.ctx, id)).toMatchObject({ status: "deleted", secrets: "" });
  });
});

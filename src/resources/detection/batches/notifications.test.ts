import { afterEach, describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { type DetectingApp, imageOf, manyDetecting } from "../../../../test/detection_kit.ts";
import { fakeClock, until } from "../../../../test/harness.ts";
import { type Got, startTlsReceiver, TLS_FLAGS } from "../../../../test/webhooks_kit.ts";
import { write } from "../../../platform/db/db.ts";
import { notifyService, pointService, servicePoint } from "../../watching/webhooks/service.ts";

const { open, closeAll } = manyDetecting();
const receivers: { stop: () => unknown }[] = [];
afterEach(async () => {
  await closeAll();
  for (const each of receivers.splice(0)) await each.stop();
});

const LOOPS = ["detection.batches", "webhooks.deliver", "webhooks.fan_out"] as const;
const receiver = (...args: Parameters<typeof startTlsReceiver>) => {
  const made = startTlsReceiver(...args);
  receivers.push(made);
  return made;
};
const point = async (app: DetectingApp, webhookUrl: string | null) => {
  const { status, body } = await app.call("PUT", "/v1/config", { webhookUrl });
  expect([status, body.webhookUrl]).toEqual([200, webhookUrl]);
  return body.webhookSecret as string | undefined;
};
const isSigned = ({ headers, body }: Got, secret: string | undefined) =>
  headers.get("x-service-signature") ===
  `sha256=${createHmac("sha256", secret ?? "")
    .update(body)
    .digest("hex")}`;

describe("notifications", () => {
  test("a batch that is done is told once, in the words of the specification, signed with the secret", async () => {
    const app = open({ loops: LOOPS, flags: TLS_FLAGS });
    const { url, got } = receiver();
    const secret = await point(app, `${url}/hook`);
    expect(secret).toStartWith("whsec_");
    expect((await app.call("GET", "/v1/config")).body.webhookSecret).toBeUndefined();
    const images = [{ image: imageOf() }, { image: "*" }];
    const { body } = await app.call("POST", "/api/detect/batch", { images });
    await until("the notification", () => got.length === 1);
    const [first] = got as [Got];
    expect(JSON.parse(first.body)).toEqual({
      event: "batch.completed",
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      data: { jobId: body.jobId, status: "completed", totalImages: 2, successCount: 1, failureCount: 1 },
    });
    expect(isSigned(first, secret)).toBe(true);
    expect(first.headers.get("webhook-signature")).toBeNull();
    expect(first.headers.get("content-type")).toBe("application/json");
  });

  test("credit that runs low and out is told at each line, once", async () => {
    const app = open({ loops: LOOPS, flags: { ...TLS_FLAGS, "detect.initial_credits": 20 } });
    const { url, got } = receiver();
    const secret = await point(app, url);
    for (let i = 0; i < 20; i++) await app.detect();
    expect((await app.detect()).body.code).toBe("INSUFFICIENT_CREDITS");
    await until("all to be told", () => got.length === 3);
    const told = got.map(({ body }) => JSON.parse(body)).sort((a, b) => b.data.credits - a.data.credits);
    const { customerId, plan } = (await app.call("GET", "/v1/config")).body;
    const timestamp = expect.any(String);
    const about = { customerId, plan, total: 20 };
    expect(told).toEqual([
      { event: "credits.low", timestamp, data: { ...about, credits: 4, threshold: 20 } },
      { event: "credits.low", timestamp, data: { ...about, credits: 1, threshold: 5 } },
      { event: "credits.exhausted", timestamp, data: { ...about, credits: 0, threshold: 0 } },
    ]);
    for (const each of got) expect(isSigned(each, secret)).toBe(true);
  });

  test("DET3 secret: it is replaced on request, shown once, and signs from then on", async () => {
    const app = open({ loops: LOOPS, flags: TLS_FLAGS });
    const rotate = () => app.call("POST", "/v1/config/rotate_secret");
    expect(await rotate()).toMatchObject({ status: 400, body: { code: "UNSUPPORTED_STATE" } });
    const { url, got } = receiver();
    const old = await point(app, url);
    const { status, body } = await rotate();
    expect([status, body.webhookUrl]).toEqual([200, url]);
    expect(body.webhookSecret).toStartWith("whsec_");
    expect(body.webhookSecret).not.toBe(old);
    expect((await app.call("GET", "/v1/config")).body.webhookSecret).toBeUndefined();
    await app.call("POST", "/api/detect/batch", { images: [{ image: "*" }] });
    await until("the notification", () => got.length === 1);
    expect([isSigned(got[0]!, old), isSigned(got[0]!, body.webhookSecret)]).toEqual([false, true]);
  });

  test("F21 feed: alerts are in the event feed, for receivers without a public address", async () => {
    const app = open({ flags: { "detect.initial_credits": 5 } });
    for (let i = 0; i < 5; i++) await app.detect();
    const types = "detection_credits.low,detection_credits.exhausted";
    const headers = { authorization: `Bearer ${app.keyA}` };
    const { data } = (await app.call("GET", `/v1/events?types=${types}`, undefined, { headers })).body;
    const about = (event: { type: string; data: { credits: number; threshold: number } }) =>
      `${event.type} ${event.data.credits} ${event.data.threshold}`;
    expect(data.map(about)).toEqual([
      "detection_credits.low 1 20",
      "detection_credits.low 0 5",
      "detection_credits.exhausted 0 0",
    ]);
  });

  test("what is not acknowledged is sent again, on the platform's schedule, to wherever it is to be sent by then", async () => {
    const clock = fakeClock();
    const app = open({ clock, loops: ["webhooks.deliver"], flags: TLS_FLAGS });
    const bad = receiver(() => new Response(null, { status: 500 }));
    const good = receiver();
    await point(app, bad.url);
    write(app.ctx.db, (tx) => notifyService(app.ctx, tx, app.workspaceA, { event: "batch.completed", data: {} }));
    app.ctx.wake("webhooks.deliver");
    await until("the first attempt", () => bad.got.length === 1);
    const secret = await point(app, good.url);
    await until("the second attempt", () => {
      clock.advance(5_000);
      return good.got.length === 1;
    });
    expect(isSigned(good.got[0] as Got, secret)).toBe(true);
    expect(good.got[0]?.body).toBe(bad.got[0]?.body as string);
    expect(good.got[0]?.headers.get("webhook-id")).toBe(bad.got[0]?.headers.get("webhook-id") as string);
  });

  test("the same address again keeps its secret, another gets its own, none is none", async () => {
    const app = open({ flags: TLS_FLAGS });
    const first = await point(app, "https://127.0.0.1:8443/a");
    expect(await point(app, "https://127.0.0.1:8443/a")).toBeUndefined();
    const second = await point(app, "https://127.0.0.1:8443/b");
    expect(second).toBeTruthy();
    expect(second).not.toBe(first);
    expect(await point(app, null)).toBeUndefined();
    expect(servicePoint(app.ctx, app.workspaceA)).toBeUndefined();
    write(app.ctx.db, (tx) => notifyService(app.ctx, tx, app.workspaceA, { event: "batch.completed", data: {} }));
    expect(app.ctx.db.$client.query("SELECT 1 FROM webhook_deliveries").all()).toEqual([]);
    expect(app.log.join()).not.toContain(second as string);
  });

  test("it is no endpoint of the platform: not listed, not found, not counted, and told nothing of it", async () => {
    const app = open({ loops: LOOPS, flags: { ...TLS_FLAGS, "webhooks.max_per_workspace": 1 } });
    const { url, got } = receiver();
    await point(app, `${url}/service`);
    const { id } = servicePoint(app.ctx, app.workspaceA) as { id: string };
    expect((await app.call("GET", "/v1/webhooks")).body.data).toEqual([]);
    for (const [method, path] of [
      ["GET", ""],
      ["GET", "/secret"],
      ["POST", "/test"],
      ["DELETE", ""],
    ])
      expect((await app.call(method as string, `/v1/webhooks/${id}${path}`)).status).toBe(404);
    const own = await app.call("POST", "/v1/webhooks", { url: `${url}/platform` });
    expect(own.status).toBe(201);
    await app.call("POST", `/v1/webhooks/${own.body.id}/test`);
    await app.call("POST", "/api/detect/batch", { images: [{ image: imageOf() }] });
    await until("both to be told", () => got.length === 2);
    expect(got.map(({ path, body }) => [path, JSON.parse(body).event ?? JSON.parse(body).type]).sort()).toEqual([
      ["/platform", "webhook.test"],
      ["/service", "batch.completed"],
    ]);
  });

  test("one that failed for good is taken up again by setting it again", async () => {
    const app = open({ flags: TLS_FLAGS });
    const secret = await point(app, "https://127.0.0.1:8443/a");
    const { id } = servicePoint(app.ctx, app.workspaceA) as { id: string };
    app.ctx.db.$client.run("UPDATE webhook_endpoints SET status = 'disabled', consecutive_failures = 50");
    expect(await point(app, "https://127.0.0.1:8443/a")).toBeUndefined();
    expect(servicePoint(app.ctx, app.workspaceA)).toMatchObject({ id, status: "enabled", consecutiveFailures: 0 });
    expect(secret).toBeTruthy();
  });

  test.each(["http://127.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/", "nonsense"])(
    "%s is refused, and nothing is changed",
    async (webhookUrl) => {
      const app = open();
      const answer = await app.call("PUT", "/v1/config", { webhookUrl, defaultThreshold: 0.9 });
      const error = expect.stringContaining("webhookUrl");
      expect(answer).toMatchObject({ status: 400, body: { code: "URL_NOT_ALLOWED", error } });
      expect((await app.call("GET", "/v1/config")).body).toMatchObject({ webhookUrl: null, defaultThreshold: 0.5 });
    },
  );
});

test("the configuration says what it is, takes what may be changed and leaves the rest", async () => {
  const app = open({ flags: { "detect.plans": ["alpha=pro"], "detect.initial_credits": 12 } });
  const { body } = await app.call("GET", "/v1/config");
  expect(body).toEqual({
    customerId: expect.stringMatching(/^cus_/),
    defaultModels: ["detector_v0"],
    defaultThreshold: 0.5,
    prior: 0.5,
    webhookUrl: null,
    cacheEnabled: true,
    plan: "pro",
    credits: 12,
  });
  const changed = await app.call("PUT", "/v1/config", { defaultModels: ["detector_v1"], plan: "free", credits: 99 });
  expect(changed.body).toEqual({ ...body, defaultModels: ["detector_v1"] });
  for (const bad of [
    { defaultModels: [] },
    { defaultModels: ["x"] },
    { defaultThreshold: 2 },
    { prior: 0 },
    { prior: 1 },
    { cacheEnabled: "no" },
  ])
    expect((await app.call("PUT", "/v1/config", bad)).status).toBe(400);
  expect((await app.call("GET", "/v1/config")).body).toEqual(changed.body);
  write(app.ctx.db, (tx) => void pointService(app.ctx, tx, app.workspaceB, null)); // nothing to end
});

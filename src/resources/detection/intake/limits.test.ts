import { afterEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { imageOf, manyDetecting } from "../../../../test/detection_kit.ts";
import { fakeClock, until } from "../../../../test/harness.ts";
import { durable, write } from "../../../platform/db/db.ts";
import { monthOf } from "../../money/billing/months.ts";
import { accountOf, charge } from "../accounts.ts";
import { alertsOf, allowanceOf, planOf, untilNextMonth } from "../policy.ts";

const { open, closeAll } = manyDetecting();
afterEach(closeAll);

const settings = {
  default_plan: "pro" as const,
  plans: ["lab=free", "ws_1=enterprise"],
  enterprise_per_second: 7,
  enterprise_per_month: 9,
};

describe("a plan", () => {
  test("is that of the workspace by its name or id, or else that of all", () => {
    expect(planOf(settings, { id: "ws_9", name: "lab" })).toBe("free");
    expect(planOf(settings, { id: "ws_1", name: "x" })).toBe("enterprise");
    expect(planOf(settings, { id: "ws_2", name: "x" })).toBe("pro");
    expect(planOf(settings, { id: "ws_1", name: "lab" })).toBe("enterprise"); // the id comes first
    expect(allowanceOf(settings, "free")).toEqual({ perSecond: 10, perMonth: 1_000 });
    expect(allowanceOf(settings, "pro")).toEqual({ perSecond: 100, perMonth: 50_000 });
    expect(allowanceOf(settings, "enterprise")).toEqual({ perSecond: 7, perMonth: 9 });
  });

  test("a month is one of UTC, and its end is known to the second", () => {
    const last = Date.UTC(2026, 11, 31, 23, 59, 59);
    expect([monthOf(last), monthOf(last + 1000)]).toEqual(["2026-12", "2027-01"]);
    expect(untilNextMonth(last)).toBe(1);
  });
});

describe("the rate", () => {
  test("is exact under 100 clients at once: 10 of them in any second, the others are told when to come", async () => {
    const clock = fakeClock();
    const app = open({ clock, flags: { "detect.default_plan": "free" } });
    const json = { image: imageOf() };
    await app.call("POST", "/api/detect", json); // from here on it is in the cache
    clock.advance(1_000);
    const burst = async () => {
      const answers = await Promise.all(Array.from({ length: 100 }, () => app.call("POST", "/api/detect", json)));
      const refused = answers.filter(({ status }) => status === 429);
      for (const { body, headers } of refused)
        expect([body.code, headers.get("retry-after")]).toEqual(["RATE_LIMITED", "1"]);
      return answers.filter(({ status }) => status === 200).length;
    };
    expect(await burst()).toBe(10);
    clock.advance(999);
    expect(await burst()).toBe(0);
    clock.advance(1);
    expect(await burst()).toBe(10);
    expect((await app.call("POST", "/api/detect", json, { key: app.keyB })).status).toBe(200);
    await durable(app.ctx.db);
    const refusals = app.ctx.db.$client.query("SELECT 1 FROM audit_log WHERE status = 429").all();
    expect(refusals).toEqual([]); // there may be any number of them
  });

  test("DET3 rate: every request of the interface counts, reads and configuration too", async () => {
    const clock = fakeClock();
    const app = open({ clock, flags: { "detect.default_plan": "free" } });
    const statuses = async (method: string, path: string) => {
      clock.advance(1_000);
      const answers = await Promise.all(Array.from({ length: 30 }, () => app.call(method, path)));
      return answers.filter(({ status }) => status !== 429).length;
    };
    for (const [method, path] of [
      ["GET", "/v1/config"],
      ["PUT", "/v1/config"],
      ["POST", "/v1/config/rotate_secret"],
      ["GET", "/api/detect/det_1"],
      ["POST", "/api/detect/det_1/feedback"],
      ["POST", "/api/detect"],
      ["POST", "/v1/detect"],
      ["POST", "/api/detect/url"],
      ["POST", "/api/detect/batch"],
      ["GET", "/api/detect/batch/bat_1"],
      ["GET", "/api/detect/batch/bat_1/results"],
      ["POST", "/api/detect/batch/bat_1/cancel"],
    ] as const)
      expect([method, path, await statuses(method, path)]).toEqual([method, path, 10]);
  });

  test("is spent before the body is read, and counts all keys of the workspace together", async () => {
    const app = open({
      clock: fakeClock(),
      flags: { "detect.plans": ["alpha=enterprise"], "detect.enterprise_per_second": 2 },
    });
    const other = app.keyOf("alpha", ["detect"]).key;
    expect((await app.call("POST", "/api/detect", {})).status).toBe(400);
    expect((await app.call("POST", "/api/detect/url", {}, { key: other })).status).toBe(400);
    expect((await app.call("POST", "/api/detect/batch", {}, { key: other })).status).toBe(429);
  });

  test("there is none for an owner's own server", async () => {
    const app = open({ clock: fakeClock() });
    const answers = await Promise.all(Array.from({ length: 200 }, () => app.call("POST", "/api/detect", {})));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([400]));
  });
});

test("M4: a tenant can neither leave its plan nor take another's by a new name", async () => {
  const app = open({ flags: { "detect.plans": ["alpha=free", "spare=enterprise"], "detect.default_plan": "pro" } });
  const planned = async (key: string) => (await app.call("GET", "/v1/config", undefined, { key })).body.plan;
  for (const name of ["alpha2", "spare"])
    for (const key of [app.keyA, app.keyB])
      expect((await app.call("PATCH", "/v1/account", { name }, { key })).status).toBe(403);
  expect([await planned(app.keyA), await planned(app.keyB)]).toEqual(["free", "pro"]);
});

describe("the quota of a month", () => {
  test("is exact however many come at once, survives a restart, and is fresh in the next month", async () => {
    const clock = fakeClock(Date.UTC(2026, 4, 31, 12));
    const flags = { "detect.enterprise_per_month": 7 };
    const app = open({ clock, flags });
    const answers = await Promise.all(Array.from({ length: 20 }, () => app.detect()));
    const refused = answers.filter(({ status }) => status === 429);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(7);
    expect(refused.map(({ body }) => body.code)).toEqual(Array(13).fill("QUOTA_EXCEEDED"));
    expect(refused[0]?.headers.get("retry-after")).toBe("43200");
    await app.close();
    const again = open({ dir: app.dir, clock, flags });
    const json = { image: imageOf() };
    expect((await again.call("POST", "/api/detect", json)).body.code).toBe("QUOTA_EXCEEDED");
    clock.advance(12 * 3_600_000);
    expect((await again.call("POST", "/api/detect", json)).status).toBe(200);
    expect(accountOf(again.ctx, again.workspaceA)).toMatchObject({ month: "2026-06", monthRequests: 1 });
  });

  test("DET3 month: failed and cached requests count, each image of a batch once, reads do not", async () => {
    const app = open({ flags: { "detect.enterprise_per_month": 7 } });
    const json = { image: imageOf() };
    for (let i = 0; i < 2; i++) await app.call("POST", "/api/detect", json);
    await app.detect({ refuse: { code: "INVALID_IMAGE", error: "no" } });
    for (let i = 0; i < 9; i++) await app.call("GET", "/v1/config");
    const images = [{ image: imageOf() }, { image: imageOf() }, { image: imageOf() }];
    expect((await app.call("POST", "/api/detect/batch", { images })).status).toBe(202);
    const more = await app.call("POST", "/api/detect/batch", { images });
    expect([more.status, more.body.code]).toEqual([429, "QUOTA_EXCEEDED"]);
    expect((await app.detect()).status).toBe(200);
    expect((await app.detect()).body.code).toBe("QUOTA_EXCEEDED");
  });
});

test("the plan of the specification: free has 1,000 requests a month", async () => {
  const app = open({ clock: fakeClock(), flags: { "detect.default_plan": "free" } });
  const use = (requests: number) =>
    write(app.ctx.db, (tx) => charge(app.ctx, tx, app.workspaceA, { requests, credits: 0 }));
  use(999);
  expect((await app.call("POST", "/api/detect", {})).status).toBe(400); // the thousandth
  expect((await app.detect()).body).toMatchObject({
    code: "QUOTA_EXCEEDED",
    error: "The plan allows 1000 requests a month. 0 are left, and this request needs 1",
  });
});

describe("credit", () => {
  test("is spent to the last, and not beyond, however many come at once", async () => {
    const app = open({ flags: { "detect.initial_credits": 5 } });
    const answers = await Promise.all(Array.from({ length: 12 }, () => app.detect()));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(5);
    const [refused] = answers.filter(({ status }) => status === 402);
    expect(refused?.body).toMatchObject({ code: "INSUFFICIENT_CREDITS", error: expect.stringContaining("0 are left") });
    expect((await app.call("GET", "/v1/config")).body.credits).toBe(0);
  });

  test("in the configuration is without what a batch has reserved, as in the message of a 402", async () => {
    const app = open({ flags: { "detect.initial_credits": 3 } });
    await app.call("POST", "/api/detect/batch", { images: Array.from({ length: 3 }, () => ({ image: imageOf() })) });
    expect((await app.call("GET", "/v1/config")).body.credits).toBe(0);
    expect((await app.detect()).body.error).toContain("0 are left");
  });

  test("is given back by whoever leaves before the answer", async () => {
    const app = open({ flags: { "detect.initial_credits": 1 } });
    const caller = new AbortController();
    const body = JSON.stringify({ image: imageOf({ gate: join(app.dir, "never") }) });
    const headers = { "x-api-key": app.keyA, "content-type": "application/json" };
    const url = "http://localhost/api/detect";
    const left = app.handle(new Request(url, { method: "POST", headers, body, signal: caller.signal }));
    await until("it to be under way", () => app.scored() === 1);
    expect((await app.detect()).status).toBe(402);
    caller.abort();
    expect((await left).status).toBe(400);
    expect((await app.detect()).status).toBe(200);
  });

  test("every line is told once, as it is crossed downwards", () => {
    const told = (before: number, after: number) => alertsOf(100, before, after).map(({ threshold }) => threshold);
    const all = Array.from({ length: 100 }, (_, i) => told(100 - i, 99 - i)).flat();
    expect(all).toEqual([20, 5, 0]);
    expect(told(100, 0)).toEqual([20, 5, 0]);
    expect(told(21, 20)).toEqual([20]);
    expect(told(20, 19)).toEqual([]);
    expect(told(0, 0)).toEqual([]);
    expect(alertsOf(0, 0, 0)).toEqual([]);
  });

  test("more that is granted can be crossed again", async () => {
    const flags = (credits: number) => ({ "detect.initial_credits": credits, "network.allow": ["127.0.0.1"] });
    const told = (app: ReturnType<typeof open>) =>
      app.ctx.db.$client.query<{ event_type: string }, []>("SELECT event_type FROM webhook_deliveries").all().length;
    const app = open({ flags: flags(10) });
    await app.call("PUT", "/v1/config", { webhookUrl: "https://127.0.0.1:8443/" });
    const spend = (on: typeof app, credits: number) =>
      write(on.ctx.db, (tx) => charge(on.ctx, tx, app.workspaceA, { requests: 1, credits }));
    spend(app, 8);
    spend(app, 1);
    expect(told(app)).toBe(1);
    await app.close();
    const richer = open({ dir: app.dir, flags: flags(100) });
    spend(richer, 70);
    expect(told(richer)).toBe(1);
    spend(richer, 1);
    expect(told(richer)).toBe(2);
  });
});

/** The rows of the conformance review about keys, secrets and billing events: each test names its row. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { write } from "../../src/platform/db/db.ts";
import { append } from "../../src/resources/money/billing/ledger.ts";
import * as billing from "../../src/resources/money/billing/service.ts";
import { fanOut } from "../../src/resources/watching/webhooks/delivery/fan_out.ts";
import { type TestApp, testApp } from "../harness.ts";
import { callsOf, NOWHERE } from "../webhooks_kit.ts";

let app: TestApp;
beforeAll(() => {
  app = testApp();
});
afterAll(() => app.close().then(app.remove));

const withHeader = (path: string, method = "GET", more: Record<string, string> = {}) =>
  app.call(method, path, method === "GET" ? undefined : {}, {
    key: null,
    headers: { "x-api-key": app.keyA, ...more },
  });

test("conformance 7: X-API-Key opens no route of the platform", async () => {
  for (const [method, path] of [
    ["GET", "/v1/secrets"],
    ["POST", "/v1/datasets"],
    ["GET", "/v1/deployments"],
    ["GET", "/v1/models"],
    ["POST", "/v1/chat/completions"],
    ["GET", "/v1/files"],
    ["GET", "/v1/no_such_route"],
  ] as const) {
    const { status, body } = await withHeader(path, method);
    expect([path, status, body.error.code]).toEqual([path, 401, "missing_api_key"]);
    expect(body.error.message).toContain("Authorization: Bearer");
  }
});

test("conformance 7: detection and clients of Anthropic and llama.cpp send X-API-Key", async () => {
  expect((await withHeader("/v1/config")).status).toBe(200);
  expect((await withHeader("/v1/messages", "POST")).status).toBe(400); // the body is wrong
  expect((await withHeader("/completion", "POST")).status).not.toBe(401);
  expect((await withHeader("/v1/models", "GET", { "anthropic-version": "2023-06-01" })).status).toBe(200);
  const bearer = { key: app.keyA, headers: { authorization: `Bearer ${app.keyA}` } };
  expect((await app.call("GET", "/v1/config", undefined, { key: null, headers: bearer.headers })).status).toBe(401);
});

test("conformance 8: a repeated creation of a key does not show the key again, and says so", async () => {
  const headers = { "idempotency-key": "a-key" };
  const create = () => app.call("POST", "/v1/api_keys", { name: "ci" }, { headers });
  const [first, second] = [await create(), await create()];
  expect(first.body.key).toStartWith("vk_");
  expect(first.body.notice).toBeUndefined();
  const { key: _, ...rest } = first.body;
  expect([second.status, second.body]).toEqual([
    201,
    { ...rest, notice: expect.stringContaining("key is shown once") },
  ]);
  expect(second.headers.get("idempotent-replayed")).toBe("true");
});

test("conformance 8: a repeated rotation shows no key, and a repeated invitation no link", async () => {
  const { id } = (await app.call("POST", "/v1/api_keys", { name: "old" })).body;
  const twice = async (path: string, body: object, header: string) => {
    const call = () => app.call("POST", path, body, { headers: { "idempotency-key": header } });
    return [await call(), await call()] as const;
  };
  const [rotated, again] = await twice(`/v1/api_keys/${id}/rotate`, {}, "rotation");
  expect(rotated.body.key).toStartWith("vk_");
  expect([again.body.id, again.body.key]).toEqual([rotated.body.id, undefined]);
  const [invited, repeated] = await twice("/v1/invitations", { email: "a@example.com" }, "invitation");
  expect(invited.body.url).toContain("#");
  expect([repeated.body.id, repeated.body.url]).toEqual([invited.body.id, undefined]);
  expect(repeated.body.notice).toContain("url is shown once");
});

test("conformance 22: credit.low and credit.exhausted can be subscribed to, and are delivered", async () => {
  const { make, rows } = callsOf(() => app);
  const chosen = await make({ event_types: ["credit.low", "credit.exhausted"] });
  const all = await make();
  const { workspaceA: workspaceId, ctx } = app;
  billing.grant(ctx, { workspaceId, usd: 100 });
  const balance = billing.balanceMicros(ctx, workspaceId);
  const spend = (amountMicros: number) =>
    write(ctx.db, (tx) =>
      append(tx, { workspaceId, kind: "charge", amountMicros: -amountMicros, description: "use" }, ctx.clock.now()),
    );
  spend(Math.round(balance * 0.9));
  spend(balance);
  await fanOut(ctx);
  const delivered = (id: string) => rows().flatMap((row) => (row.endpointId === id ? [row.eventType] : []));
  expect(delivered(chosen.id).toSorted()).toEqual(["credit.exhausted", "credit.low"]);
  expect(delivered(all.id)).toEqual(expect.arrayContaining(["credit.exhausted", "credit.low"]));
  const refused = await app.call("POST", "/v1/webhooks", { url: NOWHERE, event_types: ["credit.granted"] });
  expect([refused.status, refused.body.error.param]).toEqual([422, "/event_types/0"]);
});

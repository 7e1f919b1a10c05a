import { afterEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { pullAll } from "../../src/resources/serving/models/hub/pull.ts";
import * as models from "../../src/resources/serving/models/service.ts";
import { type FakeRepo, startFakeHub } from "../fake_hub.ts";
import { manyApps, type TestApp, tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";

const OPERATORS = "hf_OPERATORS_token";
const OWN = "hf_TENANTS_token";
const { open, closeAll } = manyApps();
const stops: (() => void)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) stop();
  await closeAll();
});
const file = new Uint8Array(readFileSync(makeModel(tempDir(), { arch: "llama", type: "F16" })));

function hubWith(token: string) {
  const repo: FakeRepo = { files: { "m.gguf": file }, token };
  const hub = startFakeHub({ "acme/private": repo });
  stops.push(hub.stop);
  return hub;
}
const appAt = (url: string, more: Record<string, unknown> = {}) =>
  open({ flags: { "hub.endpoint": url, "network.allow": ["127.0.0.1"], "hub.token": OPERATORS, ...more } });

/** The state of `acme/private` for the workspace of that key. */
async function pulled(app: TestApp, key: string) {
  const { body } = await app.call("POST", "/v1/models/pull", { name: "acme/private" }, { key });
  await pullAll(app.ctx, new AbortController().signal);
  const { status, error } = (await app.call("GET", `/v1/models/${body.id}`, undefined, { key })).body;
  return { status, error };
}
const bearers = (hub: ReturnType<typeof hubWith>) => new Set(hub.requests.map(({ authorization }) => authorization));

describe("L6: the operator's token of the hub", () => {
  test("is not used for a workspace without an admin key, and the error says what to do", async () => {
    const hub = hubWith(OPERATORS);
    const app = appAt(hub.url);
    const { status, error } = await pulled(app, app.keyA);
    expect(status).toBe("failed");
    expect(error).toContain("secret HUB_TOKEN");
    expect(bearers(hub)).toEqual(new Set([null]));
  });

  test("is used for a workspace that holds an admin key, also for requests of its other keys", async () => {
    const hub = hubWith(OPERATORS);
    const app = appAt(hub.url);
    const { key } = app.keyOf("operators", ["inference"]);
    expect(await pulled(app, key)).toMatchObject({ status: "ready" });
    expect(bearers(hub)).toEqual(new Set([`Bearer ${OPERATORS}`]));
  });

  test("is no longer used once the admin key is revoked or has expired", async () => {
    for (const end of ["status = 'revoked'", "expires_at = 1"]) {
      const hub = hubWith(OPERATORS);
      const app = appAt(hub.url);
      const { key } = app.keyOf("operators", ["inference"]);
      app.ctx.db.$client.run(`UPDATE api_keys SET ${end} WHERE scopes LIKE '%admin%'`);
      expect(await pulled(app, key)).toMatchObject({ status: "failed" });
      expect(bearers(hub)).toEqual(new Set([null]));
    }
  });

  test("is used for all workspaces if hub.token_for says so", async () => {
    const hub = hubWith(OPERATORS);
    const app = appAt(hub.url, { "hub.token_for": "all" });
    expect(await pulled(app, app.keyA)).toMatchObject({ status: "ready" });
  });

  test("a file that the operator's token opened is not given to a workspace that the hub refuses", async () => {
    const hub = hubWith(OPERATORS);
    const app = appAt(hub.url);
    expect(await pulled(app, app.adminKey)).toMatchObject({ status: "ready" });
    expect(await pulled(app, app.keyA)).toMatchObject({ status: "failed" });
  });
});

describe("a workspace's own token, the secret HUB_TOKEN", () => {
  const put = (app: TestApp, json: object, key: string) => app.call("PUT", "/v1/secrets/HUB_TOKEN", json, { key });

  test("is used only for that workspace, and wins over the operator's token", async () => {
    const hub = hubWith(OWN);
    const app = appAt(hub.url, { "hub.token_for": "all" });
    await put(app, { value: OWN }, app.keyA);
    expect(await pulled(app, app.keyA)).toMatchObject({ status: "ready" });
    expect(bearers(hub)).toEqual(new Set([`Bearer ${OWN}`]));
    expect(await pulled(app, app.keyB)).toMatchObject({ status: "failed" });
    expect(hub.requests.at(-1)?.authorization).toBe(`Bearer ${OPERATORS}`);
    expect(app.log.join("\n")).not.toContain(OWN);
  });

  test("that is bound to another host is not sent, and the failure says so", async () => {
    const hub = hubWith(OWN);
    const app = appAt(hub.url);
    await put(app, { value: OWN, scope_host: "hub.example.com" }, app.keyA);
    const { status, error } = await pulled(app, app.keyA);
    expect([status, hub.requests.length]).toEqual(["failed", 0]);
    expect(error).toContain("scope_host");
    expect(error).not.toContain(OWN);
    expect(models.mustGet(app.ctx, app.workspaceA, "acme/private").status).toBe("failed");
  });
});

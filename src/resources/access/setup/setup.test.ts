import { afterEach, beforeEach, expect, test } from "bun:test";
import { type TestApp, testApp } from "../../../../test/harness.ts";
import { COMMAND_LINE_KEY } from "../../../lib/command_line_key.ts";
import * as keys from "../api_keys/service.ts";
import * as workspaces from "../workspaces/service.ts";
import * as setup from "./service.ts";

let app: TestApp;
beforeEach(() => {
  app = testApp();
  app.ctx.db.$client.run("DELETE FROM api_keys");
});
afterEach(() => app.close().then(app.remove));

const redeem = (token: string | undefined) => app.call("POST", "/setup", { token }, { key: null });

test("while nobody holds a key, each start gives a token and takes back the one before", async () => {
  const first = setup.prepare(app.ctx).setupToken;
  const second = setup.prepare(app.ctx).setupToken;
  expect((await redeem(first)).status).toBe(401);
  expect((await redeem(second)).status).toBe(201);
});

test("a wrong guess does not spend the token", async () => {
  const { setupToken } = setup.prepare(app.ctx);
  expect((await redeem("guess")).status).toBe(401);
  expect((await redeem(setupToken)).status).toBe(201);
});

test("a token that was never used dies at the first start that finds a key", async () => {
  const { setupToken } = setup.prepare(app.ctx);
  app.keyOf("alpha", ["*"]);
  expect(setup.prepare(app.ctx).setupToken).toBeUndefined();
  expect((await redeem(setupToken)).status).toBe(401);
});

test("a default workspace that was renamed does not come back at the next start", async () => {
  const { setupToken } = setup.prepare(app.ctx);
  const { key } = (await redeem(setupToken)).body;
  expect((await app.call("PATCH", "/v1/account", { name: "acme" }, { key })).status).toBe(200);
  setup.prepare(app.ctx);
  expect(workspaces.findByName(app.ctx, setup.DEFAULT_WORKSPACE)).toBeUndefined();
});

test("F9 the key that the command line makes for itself leaves the link alone; any other key ends it", async () => {
  const { setupToken } = setup.prepare(app.ctx);
  const { id } = workspaces.create(app.ctx, { name: "gamma", metadata: {} });
  const input = { scopes: ["*" as const], expires_at: null, monthly_budget_usd: null, metadata: {} };
  keys.create(app.ctx, id, { ...input, name: COMMAND_LINE_KEY });
  const later = setup.prepare(app.ctx).setupToken;
  expect(later).toBeString();
  expect((await redeem(setupToken)).status).toBe(401); // each start replaces the link
  keys.create(app.ctx, id, { ...input, name: "laptop" });
  expect((await redeem(later)).status).toBe(401);
  expect(setup.prepare(app.ctx).setupToken).toBeUndefined();
});

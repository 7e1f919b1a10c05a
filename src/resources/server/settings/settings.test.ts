import { afterEach, expect, test } from "bun:test";
import { manyApps, type TestApp } from "../../../../test/harness.ts";
import { SETTINGS } from "../../../platform/config/schema.ts";
import { leaves } from "../../../platform/config/walk.ts";
import { operatorSettings } from "./table.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const callsOf = (app: TestApp) => ({
  list: async () => {
    const { status, body } = await app.call("GET", "/v1/settings", undefined, { key: app.adminKey });
    expect(status).toBe(200);
    return new Map(body.data.map((each: { name: string }) => [each.name, each]));
  },
  change: (name: string, value: unknown, key = app.adminKey) =>
    app.call("PATCH", `/v1/settings/${name}`, { value }, { key }),
});
const LIMIT = "monitors.max_per_workspace";

test("an admin key reads the settings in force with meaning and source; secrets are hidden", async () => {
  const app = open({ flags: { "http.rate_limit_burst": 77, "hub.token": "hf_secret" } });
  const byName = await callsOf(app).list();
  expect(byName.get("http.rate_limit_burst")).toEqual({
    object: "setting",
    name: "http.rate_limit_burst",
    value: 77,
    default: 2000,
    is_default: false,
    meaning: "Requests one key may send at once; 0 = off.",
    source: "the command line",
    set_by: "command_line",
    variable: "VERK_HTTP__RATE_LIMIT_BURST",
    needs_restart: true,
    changed_at: null,
  });
  expect(byName.get("audit.retention_days")).toMatchObject({ is_default: true, source: "default", set_by: "default" });
  expect(byName.get("hub.token")).toMatchObject({ value: "[redacted]", default: "", source: "the command line" });
  expect(JSON.stringify([...byName])).not.toContain("hf_secret");
});

test("a key without the scope admin is refused", async () => {
  const app = open();
  expect((await app.call("GET", "/v1/settings")).status).toBe(403);
  expect((await callsOf(app).change(LIMIT, 1, app.keyA)).status).toBe(403);
});

test("a change counts at once, is in the audit log, and lasts over a restart until it is taken back", async () => {
  const first = open();
  const { change } = callsOf(first);
  const monitor = (app: TestApp, name: string) =>
    app.call("POST", "/v1/monitors", { name, metric: "balance", thresholds: { alert: 1 } });
  const { status, body } = await change(LIMIT, 1);
  expect([status, body.value, body.source, body.set_by, body.is_default]).toEqual([
    200,
    1,
    "the dashboard",
    "dashboard",
    false,
  ]);
  expect(body.changed_at).not.toBeNull();
  expect((await monitor(first, "a")).status).toBe(201);
  expect((await monitor(first, "b")).body.error.code).toBe("quota_exceeded");
  const log = await first.call("GET", "/v1/account/audit_log", undefined, { key: first.adminKey });
  expect(log.body.data).toContainEqual(
    expect.objectContaining({ route: "/v1/settings/{name}", resource_ids: { name: LIMIT }, status: 200 }),
  );
  await first.close();
  const second = open({ dir: first.dir });
  expect((await callsOf(second).list()).get(LIMIT)).toMatchObject({ value: 1, set_by: "dashboard" });
  expect((await callsOf(second).change(LIMIT, null)).body).toMatchObject({ value: 100, set_by: "default" });
  expect((await monitor(second, "b")).status).toBe(201);
});

test("a file, a variable or a flag wins over a change, and wrong changes are refused with a way out", async () => {
  const first = open();
  expect((await callsOf(first).change(LIMIT, 5)).status).toBe(200);
  await first.close();
  const app = open({ dir: first.dir, flags: { [LIMIT]: 7 } });
  const { change, list } = callsOf(app);
  expect((await list()).get(LIMIT)).toMatchObject({ value: 7, set_by: "command_line" });
  const refusals = await Promise.all([
    change(LIMIT, 6),
    change("http.listen", "0.0.0.0:80"),
    change("webhooks.max_per_workspace", "many"),
    change("webhooks.max_per_workspace", 0),
    change("webhooks.max_per_workspac", 5),
  ]);
  expect(refusals.map(({ status, body }) => [status, body.error.message.split(". ")[0]])).toEqual([
    [400, `${LIMIT} is set by the command line, which wins`],
    [400, "http.listen is read at the start of the server"],
    [422, expect.stringContaining("webhooks.max_per_workspace")],
    [422, expect.stringContaining("webhooks.max_per_workspace")],
    [404, "There is no setting webhooks.max_per_workspac"],
  ]);
  expect(refusals[4]?.body.error.message).toContain("Did you mean webhooks.max_per_workspace?");
  expect(app.ctx.db.select().from(operatorSettings).all()).toHaveLength(1);
});

test("no secret, no list, and nothing that opens a door changes while the server runs", () => {
  const live = leaves(SETTINGS).filter((leaf) => leaf.live);
  expect(live.length).toBeGreaterThan(30);
  for (const { path, kind, secret } of live) {
    expect([path, kind, secret]).toEqual([path, "number", false]);
    expect(path).not.toMatch(/^(http|acme|network|secrets|hub|storage|oidc|audit|sandbox|backup|db)\./);
  }
});

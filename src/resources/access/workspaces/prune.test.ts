import { afterEach, expect, test } from "bun:test";
import { fakeRewards } from "../../../../test/fake_rewards.ts";
import { fakeClock, manyApps, type TestApp } from "../../../../test/harness.ts";
import { deploymentRow } from "../../../../test/money_deeds.ts";
import { DAY_MS, HOUR_MS } from "../../../lib/units.ts";
import { loops } from "../../../loops.ts";
import { durable, write } from "../../../platform/db/db.ts";
import { purge } from "../../../purge.ts";
import type { LoopName } from "../../../schedules.ts";
import * as billing from "../../money/billing/service.ts";
import { deployments } from "../../serving/deployments/table.ts";
import * as secondFactor from "../people/second_factor/service.ts";
import * as people from "../people/service.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const tick = async (app: TestApp, name: LoopName) =>
  await loops(app.ctx)
    .find((loop) => loop.name === name)
    ?.tick(new AbortController().signal);
const PRUNERS: LoopName[] = (
  ["detection", "events", "audit", "idempotency", "sessions", "deployments", "webhooks", "api_keys"] as const
).map((name) => `${name}.prune` as const);

/** Tables that have a row of the workspace, by its column or by its id. */
function tablesWith(app: TestApp, workspaceId: string): string[] {
  const { $client } = app.ctx.db;
  const tables = $client
    .query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    .all()
    .map(({ name }) => name);
  return tables.filter((name) => {
    const columns = $client.query<{ name: string }, []>(`PRAGMA table_info(${name})`).all();
    const column = name === "workspaces" ? "id" : "workspace_id";
    if (!columns.some((each) => each.name === column)) return false;
    return $client.query(`SELECT 1 FROM ${name} WHERE ${column} = ?`).get(workspaceId) !== null;
  });
}

/** A workspace with something in it, deleted and purged. */
async function deleted(app: TestApp, clock: ReturnType<typeof fakeClock>) {
  fakeRewards(app);
  const { workspaceId, key } = app.keyOf("lab", ["*"]);
  const post = (path: string, body: object) => app.call("POST", path, body, { key });
  const made = [
    await post("/v1/api_keys", { name: "x", monthly_budget_usd: 5 }),
    await post("/v1/datasets", { name: "rows", format: "prompt" }),
    await app.call("PUT", "/v1/secrets/TOKEN", { value: "x" }, { key }),
    await post("/v1/volumes", { name: "files" }),
    await post("/v1/webhooks", { url: "https://example.com/x", events: ["job.completed"] }),
    await post("/v1/reward_functions", { name: "r", source: "def reward(completions, **kwargs):\n    return [1.0]\n" }),
  ];
  expect(made.filter(({ status }) => status > 201)).toEqual([]);
  const invited = { workspaceId, email: "bo@example.com", name: "Bo", role: "viewer", passwordHash: "hash" } as const;
  secondFactor.begin(app.ctx, people.personOf(app.ctx, people.claim(app.ctx, invited)), "Verk");
  const row = { ...deploymentRow(clock.now(), workspaceId, 1_000_000), status: "stopped" as const };
  write(app.ctx.db, (tx) => {
    tx.insert(deployments).values(row).run();
    const payer = { workspaceId, keyId: made[0]?.body.id as string };
    const used = { kind: "deployment", id: row.id, label: "Deployment x", usedMs: 0, ms: HOUR_MS, count: 1 } as const;
    billing.charge(
      tx,
      billing.billFor({ ...payer, ...used, until: clock.now(), ratePerHourMicros: 1_000_000, remainder: 0 }),
      clock.now(),
    );
  });
  await app.call("DELETE", `/v1/workspaces/${workspaceId}`, undefined, { key: app.adminKey });
  await purge(app.ctx);
  await tick(app, "volumes.sweep");
  await durable(app.ctx.db);
  return workspaceId;
}

test("D15 deleted workspaces: after their window only the ledger and the sums of use name them", async () => {
  const clock = fakeClock();
  const app = open({ clock, parts: ["clock"] });
  const id = await deleted(app, clock);
  const ledger = () =>
    app.ctx.db.$client.query("SELECT id, amount_micros FROM ledger_entries WHERE workspace_id = ? ORDER BY id").all(id);
  const entries = ledger();
  clock.advance(399 * DAY_MS);
  for (const name of [...PRUNERS, "workspaces.prune"] as const) await tick(app, name);
  expect(tablesWith(app, id)).toContain("workspaces");
  clock.advance(2 * DAY_MS);
  for (const name of [...PRUNERS, "workspaces.prune"] as const) await tick(app, name);
  expect(tablesWith(app, id)).toEqual(["ledger_entries"]);
  expect([entries.length, ledger()]).toEqual([2, entries]);
  expect((await app.call("GET", "/v1/workspaces", undefined, { key: app.adminKey })).status).toBe(200);
});

test("D15 deleted workspaces: one that a deployment still refers to stays, and does not keep others", async () => {
  const clock = fakeClock();
  const app = open({ clock, flags: { "workspaces.retention_days": 10, "serving.retention_days": 50 } });
  const [first, second] = [await deleted(app, clock), app.keyOf("empty", []).workspaceId];
  await app.call("DELETE", `/v1/workspaces/${second}`, undefined, { key: app.adminKey });
  await purge(app.ctx);
  clock.advance(11 * DAY_MS);
  await tick(app, "workspaces.prune");
  expect([first, second].map((id) => tablesWith(app, id).includes("workspaces"))).toEqual([true, false]);
  clock.advance(40 * DAY_MS);
  for (const name of ["deployments.prune", "webhooks.prune", "workspaces.prune"] as const) await tick(app, name);
  expect(tablesWith(app, first)).not.toContain("workspaces");
  for (const id of [app.workspaceA, app.workspaceB]) expect(tablesWith(app, id)).toContain("workspaces");
});

test("D15 pruners: a clock that is a year ahead removes no workspace and merges no charge", async () => {
  const clock = fakeClock();
  const app = open({ clock, parts: ["clock"] });
  const id = await deleted(app, clock);
  const before = tablesWith(app, id);
  clock.set(500 * DAY_MS);
  for (const name of ["clock.observe", "workspaces.prune", "billing.merge"] as const) await tick(app, name);
  expect(tablesWith(app, id)).toEqual(before);
  const merged = "SELECT 1 FROM ledger_entries WHERE merged_entries IS NOT NULL";
  expect(app.ctx.db.$client.query(merged).all()).toEqual([]);
});

import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { and, eq, inArray, lt } from "drizzle-orm";
import { manyDeploying } from "../../../../test/fake_replicas.ts";
import { fakeClock, testApp, until } from "../../../../test/harness.ts";
import { deploymentRow } from "../../../../test/money_deeds.ts";
import { ACTIVE, ENDED } from "../../../lib/deployment_status.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { write } from "../../../platform/db/db.ts";
import { prune } from "./prune.ts";
import { type DeploymentRow, deploymentRequests, deployments } from "./table.ts";

setDefaultTimeout(60_000); // some start processes
const { open, closeAll } = manyDeploying();
afterEach(closeAll);

test("D15 ended deployments: a stopped one leaves memory, and showing it does not bring it back", async () => {
  const on = await open();
  const { fleet } = on.ctx.state.deployments;
  const id = await on.deploy();
  await on.reaches(id, "serving");
  expect(fleet.has(id)).toBe(true);
  await on.call("POST", `/v1/deployments/${id}/stop`);
  await until("it to leave memory", () => !fleet.has(id));
  for (const path of ["/v1/deployments", `/v1/deployments/${id}`, `/v1/deployments/${id}/metrics`])
    expect((await on.call("GET", path)).status).toBe(200);
  expect(fleet.size).toBe(0);
  await on.call("POST", `/v1/deployments/${id}/start`);
  await on.reaches(id, "serving");
});

test("D15 ended deployments: rows go after serving.retention_days, once their requests are gone", async () => {
  const clock = fakeClock();
  const app = testApp({ clock, flags: { "serving.retention_days": 90 } });
  const { db } = app.ctx;
  const add = (status: DeploymentRow["status"], ageDays: number) => {
    const row = deploymentRow(clock.now(), app.workspaceA, null);
    const updatedAt = clock.now() - ageDays * DAY_MS;
    write(db, (tx) =>
      tx
        .insert(deployments)
        .values({ ...row, status, updatedAt })
        .run(),
    );
    return row.id;
  };
  const [stopped, failed, young, parked, asked] = [
    add("stopped", 91),
    add("failed", 91),
    add("stopped", 89),
    add("serving", 400),
    add("stopped", 91),
  ] as const;
  write(db, (tx) =>
    tx
      .insert(deploymentRequests)
      .values({
        id: "req_1",
        workspaceId: app.workspaceA,
        deploymentId: asked,
        promptTokens: 1,
        completionTokens: 1,
        latencyMs: 1,
        statusCode: 200,
        errorMessage: null,
        createdAt: clock.now() - 20 * DAY_MS,
      })
      .run(),
  );
  const left = () => db.select({ id: deployments.id }).from(deployments).all().map(({ id }) => id).sort(); // biome-ignore format: one line
  await prune(app.ctx);
  expect(left()).toEqual([young, parked, asked].sort());
  expect([stopped, failed].some((id) => left().includes(id))).toBe(false);
  clock.advance(11 * DAY_MS);
  await prune(app.ctx);
  expect(left()).toEqual([parked].sort());
  await app.close();
  app.remove();
});

test("D14 indexes: lists by status, active rows and old rows of deployments are found by an index", async () => {
  const app = testApp();
  const { workspaceId, status, updatedAt } = deployments;
  for (const [where, index] of [
    [and(eq(workspaceId, "w"), eq(status, "failed")), "deployments_list (workspace_id=? AND status=?"],
    [inArray(status, ACTIVE), "deployments_status (status=?"],
    [and(inArray(status, ENDED), lt(updatedAt, 1)), "deployments_status (status=? AND updated_at<?"],
  ] as const) {
    const { sql, params } = app.ctx.db.select().from(deployments).where(where).toSQL();
    const plan = app.ctx.db.$client.query(`EXPLAIN QUERY PLAN ${sql}`).all(...(params as string[]));
    expect(plan).toMatchObject([{ detail: expect.stringContaining(index) }]);
  }
  await app.close();
  app.remove();
});

import { afterEach, expect, test } from "bun:test";
import { eventsOf } from "../../../../test/fake_replicas.ts";
import { manyApps, type TestApp } from "../../../../test/harness.ts";
import { deploymentRow } from "../../../../test/money_deeds.ts";
import { newId } from "../../../lib/ids.ts";
import { write } from "../../../platform/db/db.ts";
import { prune } from "../../watching/traces/prune.ts";
import * as traces from "../../watching/traces/service.ts";
import { type DeploymentRow, deploymentRequests, deployments } from "./table.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

function add(app: TestApp, status: DeploymentRow["status"]): string {
  const now = app.ctx.clock.now();
  const row = { ...deploymentRow(now, app.workspaceA, null), status };
  const request = { promptTokens: 1, completionTokens: 1, latencyMs: 1, statusCode: 200, errorMessage: null };
  const ids = { id: newId("req"), workspaceId: app.workspaceA, deploymentId: row.id };
  write(app.ctx.db, (tx) => {
    tx.insert(deployments).values(row).run();
    tx.insert(deploymentRequests)
      .values({ ...ids, ...request, createdAt: now })
      .run();
  });
  const trace = { id: newId("trc", now), source: "chat", capture: "none", status: 200, startedAt: now } as const;
  traces.record(app.ctx, { ...trace, ...ids, id: newId("trc", now), durationMs: 1, spans: [] });
  return row.id;
}

test("a stopped or failed deployment is deleted with its requests and traces; others keep theirs", async () => {
  const app = open();
  const stays = add(app, "stopped");
  for (const status of ["stopped", "failed"] as const) {
    const id = add(app, status);
    const path = `/v1/deployments/${id}`;
    expect((await app.call("DELETE", path, undefined, { key: app.keyB })).status).toBe(404);
    const { status: code, body } = await app.call("DELETE", path);
    expect([code, body]).toEqual([200, { id, object: "deployment", deleted: true }]);
    for (const method of ["GET", "DELETE"]) expect((await app.call(method, path)).status).toBe(404);
    expect(eventsOf(app, id)).toEqual(["deployment.deleted"]);
  }
  const left = app.ctx.db.select({ id: deploymentRequests.deploymentId }).from(deploymentRequests).all();
  expect(left).toEqual([{ id: stays }]);
  await prune(app.ctx);
  const { data } = (await app.call("GET", "/v1/traces")).body;
  expect(data.map((each: { deployment_id: string }) => each.deployment_id)).toEqual([stays]);
});

test.each(["queued", "provisioning", "serving", "unhealthy"] as const)(
  "a deployment that is %s stays",
  async (status) => {
    const app = open();
    const id = add(app, status);
    const { status: code, body } = await app.call("DELETE", `/v1/deployments/${id}`);
    expect([code, body.error.code]).toEqual([400, "unsupported_state"]);
    expect(body.error.message).toContain(`is ${status}: stop it first with POST /v1/deployments/${id}/stop`);
    expect((await app.call("GET", `/v1/deployments/${id}`)).body.status).toBe(status);
  },
);

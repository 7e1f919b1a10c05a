import { afterEach, expect, test } from "bun:test";
import { type TestApp, testApp } from "../../../../test/harness.ts";
import { deploymentRow } from "../../../../test/money_deeds.ts";
import { STATUSES } from "../../../lib/deployment_status.ts";
import { write } from "../../../platform/db/db.ts";
import { deployments } from "./table.ts";

const apps: TestApp[] = [];
afterEach(async () => {
  for (const each of apps.splice(0)) await each.close().then(each.remove);
});

function open() {
  const app = testApp();
  apps.push(app);
  const add = (more: Partial<typeof deployments.$inferInsert>) => {
    const row = { ...deploymentRow(1, app.workspaceA, null), ...more };
    write(app.ctx.db, (tx) => tx.insert(deployments).values(row).run());
    return row.id;
  };
  return { app, add };
}

test("P4 error: it is set only if the deployment has failed; last_error has it in every status", async () => {
  const { app, add } = open();
  for (const status of STATUSES) {
    const id = add({ status, error: "out of luck", errorCode: "worker_failed" });
    const { body } = await app.call("GET", `/v1/deployments/${id}`);
    const failed = status === "failed";
    expect([body.error, body.error_code]).toEqual(failed ? ["out of luck", "worker_failed"] : [null, null]);
    expect(body.last_error).toBe("out of luck");
  }
});

test("P11 name: two active deployments cannot have one name; a stopped one gives it free", async () => {
  const { app, add } = open();
  const id = add({ name: "shop", status: "serving" });
  const again = { model: "owner/repo", name: "shop" };
  const refused = await app.call("POST", "/v1/deployments", again);
  expect([refused.status, refused.body.error.code]).toEqual([400, "name_taken"]);
  await app.call("POST", `/v1/deployments/${id}/stop`);
  expect((await app.call("POST", "/v1/deployments", again)).status).toBe(201);
});

test("P11 source: the default is training_job for a job id, else the registry or the hub", async () => {
  const { app } = open();
  const job = await app.call("POST", "/v1/deployments", { model: "job_01m7h6jx000000000000000000", name: "a" });
  expect([job.status, job.body.error.message]).toEqual([404, expect.stringContaining("No training job")]);
  const named = await app.call("POST", "/v1/deployments", { model: "owner/repo", name: "b" });
  expect([named.status, named.body.source]).toEqual([201, "hub"]);
  const refused = await app.call("POST", "/v1/deployments", { model: "owner/repo", name: "c", source: "training_job" });
  expect([refused.status, refused.body.error.param]).toEqual([404, "/model"]);
});

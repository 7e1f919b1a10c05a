import { afterEach, beforeEach, expect, test } from "bun:test";
import { fakePorts, newDataset, newDeployment, sums } from "../../../../test/experiments_kit.ts";
import { type TestApp, testApp } from "../../../../test/harness.ts";
import { sweep } from "./running/sweep.ts";

const PATH = "/v1/experiments";
let app: TestApp;
let [dataset, tuned] = ["", ""];
beforeEach(async () => {
  app = testApp();
  fakePorts(app);
  dataset = await newDataset(app, sums(6));
  await newDeployment(app, "base");
  tuned = await newDeployment(app, "tuned");
});
afterEach(() => app.close().then(app.remove));

const deployed = (deployment: string) => ({ type: "deployment", deployment });
const request = (more: object = {}) => ({
  dataset,
  targets: [deployed("base"), deployed("tuned")],
  evaluators: ["accuracy"],
  ...more,
});

test.each<[string, object, number, string]>([
  ["an unknown dataset", { dataset: "ds_none" }, 404, "/dataset"],
  ["an unknown deployment", { targets: [deployed("nowhere")] }, 404, "/targets/0/deployment"],
  ["an unknown job", { targets: [{ type: "checkpoint", job: "job_none" }] }, 404, "/targets/0/job"],
  ["an unknown model", { targets: [{ type: "model", model: "none" }] }, 404, "/targets/0/model"],
  ["an unknown evaluator", { evaluators: ["accuracy", "missing"] }, 404, "/evaluators/1"],
  ["the same evaluator twice", { evaluators: ["accuracy", "accuracy"] }, 422, "/evaluators/1"],
  ["two targets of one name", { targets: [deployed("base"), deployed("base")] }, 422, "/targets/1/name"],
  ["an unknown baseline", { baseline: "other" }, 422, "/baseline"],
  ["no targets", { targets: [] }, 422, "/targets"],
])("a request with %s says where the fault is", async (_name, more, status, param) => {
  const answer = await app.call("POST", PATH, request(more));
  expect([answer.status, answer.body.error.param]).toEqual([status, param]);
  expect((await app.call("GET", PATH)).body.data).toEqual([]);
  await sweep(app.ctx);
  expect((await app.call("DELETE", `/v1/datasets/${dataset}`)).status).toBe(200); // nothing is pinned
});

test("a request with a stopped deployment is refused", async () => {
  await app.call("POST", `/v1/deployments/${tuned}/stop`);
  const { status, body } = await app.call("POST", PATH, request({ targets: [deployed(tuned)] }));
  expect([status, body.error.param]).toEqual([400, "/targets/0/deployment"]);
});

test("a request sent twice with one Idempotency-Key makes one experiment", async () => {
  const headers = { "idempotency-key": "once" };
  const [first, second] = [
    await app.call("POST", PATH, request(), { headers }),
    await app.call("POST", PATH, request(), { headers }),
  ];
  expect([second.status, second.body.id]).toEqual([201, first.body.id]);
  expect((await app.call("GET", PATH)).body.data).toHaveLength(1);
});

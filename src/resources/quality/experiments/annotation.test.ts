import { afterEach, beforeEach, expect, test } from "bun:test";
import { fakePorts, newDataset, newDeployment, runAll, sums } from "../../../../test/experiments_kit.ts";
import { type TestApp, testApp } from "../../../../test/harness.ts";

let app: TestApp;
beforeEach(() => {
  app = testApp();
});
afterEach(() => app.close().then(app.remove));

test("two answers of an experiment become a pairwise annotation item, which each of them names", async () => {
  const deployments = [await newDeployment(app, "base"), await newDeployment(app, "tuned")];
  fakePorts(app, { answer: (id) => (id === deployments[0] ? "no" : "yes") });
  const targets = deployments.map((deployment) => ({ type: "deployment", deployment }));
  const body = { dataset: await newDataset(app, sums(1)), targets, evaluators: ["accuracy"] };
  const { id } = (await app.call("POST", "/v1/experiments", body)).body;
  await runAll(app);
  const items = async () => (await app.call("GET", `/v1/experiments/${id}/items`)).body.data;
  const [tuned, base] = await items();
  expect([tuned.output, base.output, base.annotation_items]).toEqual(["yes", "no", []]);

  const queue = (await app.call("POST", "/v1/annotation_queues", { name: "q", mode: "pairwise" })).body.id;
  const path = `/v1/annotation_queues/${queue}/items`;
  const pair = { items: [{ experiment_item_ids: [base.id, tuned.id] }] };
  const [added] = (await app.call("POST", path, pair)).body.item_ids;
  const { source, input, outputs, reference } = (await app.call("GET", `${path}/${added}`)).body;
  expect({ source, input, outputs, reference }).toMatchObject({
    input: "0 + 1",
    outputs: ["no", "yes"],
    reference: "1",
    source: { type: "experiment", experiment_item_ids: [base.id, tuned.id] },
  });
  const link = { id: added, queue_id: queue, status: "pending" };
  for (const each of await items()) expect(each.annotation_items).toEqual([link]);

  const refused = await app.call("POST", path, { items: [{ experiment_item_ids: ["expi_none", tuned.id] }] });
  expect([refused.status, refused.body.error.param]).toEqual([404, "/items/0/experiment_item_ids/0"]);
  const ofB = await app.call("POST", "/v1/annotation_queues", { name: "q", mode: "pairwise" }, { key: app.keyB });
  const foreign = await app.call("POST", `/v1/annotation_queues/${ofB.body.id}/items`, pair, { key: app.keyB });
  expect(foreign.status).toBe(404);
});

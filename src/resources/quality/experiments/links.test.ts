import { afterEach, beforeEach, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { fakePorts, newDataset, newDeployment, sums } from "../../../../test/experiments_kit.ts";
import { type TestApp, testApp } from "../../../../test/harness.ts";
import { insert } from "../../../../test/insert_row.ts";
import { newId } from "../../../lib/ids.ts";
import { deployments } from "../../serving/deployments/table.ts";
import { experimentLinks } from "./table.ts";

const PATH = "/v1/experiments";
let app: TestApp;
beforeEach(() => {
  app = testApp();
  fakePorts(app);
});
afterEach(() => app.close().then(app.remove));

const found = async (query: string, key = app.keyA) =>
  (await app.call("GET", `${PATH}?${query}`, undefined, { key })).body.data.map(({ id }: { id: string }) => id);

const create = async (...targets: object[]) => {
  const dataset = await newDataset(app, sums(1));
  const { body } = await app.call("POST", PATH, { dataset, targets, evaluators: ["accuracy"] });
  return body;
};

test("an experiment is found by its dataset, deployment, training job and evaluator, in its own workspace", async () => {
  const [base, tuned] = [await newDeployment(app, "base"), await newDeployment(app, "tuned")];
  const job = newId("job");
  const served = { source: "training_job", model: job, checkpoint: "ckpt_1" } as const;
  app.ctx.db.update(deployments).set(served).where(eq(deployments.id, tuned)).run();
  const both = await create({ type: "deployment", deployment: base }, { type: "deployment", deployment: "tuned" });
  expect(both.targets[1]).toMatchObject({ deployment_id: tuned, job_id: job, checkpoint_id: "ckpt_1", model: null });
  const other = await create({ type: "outputs", field: "completion" });
  expect(await found(`deployment_id=${tuned}`)).toEqual([both.id]);
  expect(await found(`job_id=${job}&deployment_id=${base}`)).toEqual([both.id]);
  expect(await found("evaluator_id=evl_accuracy")).toEqual([other.id, both.id]);
  expect(await found(`dataset_id=${other.dataset_id}`)).toEqual([other.id]);
  expect(await found(`dataset_id=${other.dataset_id}&job_id=${job}`)).toEqual([]);
  expect(await found(`job_id=${job}`, app.keyB)).toEqual([]);
});

test("a job's model that was deployed by its name is found by the job", async () => {
  const [tuned, job, model] = [await newDeployment(app, "tuned"), newId("job"), newId("mdl")];
  const made = { name: "terse-tiny", source: "training_job", job_id: job, checkpoint_id: "ckpt_2", metadata: "{}" };
  insert(app, "models", model, 0, made);
  const served = { source: "training_job", model: "terse-tiny", modelId: model } as const;
  app.ctx.db.update(deployments).set(served).where(eq(deployments.id, tuned)).run();
  const { id, targets } = await create({ type: "deployment", deployment: "tuned" });
  expect(targets).toMatchObject([{ deployment_id: tuned, job_id: job, checkpoint_id: "ckpt_2", model: null }]);
  expect(await found(`job_id=${job}`)).toEqual([id]);
});

test("a deleted experiment leaves no links", async () => {
  const { id } = await create({ type: "outputs", field: "completion" });
  await app.call("POST", `${PATH}/${id}/cancel`);
  await app.call("DELETE", `${PATH}/${id}`);
  expect(app.ctx.db.select().from(experimentLinks).all()).toEqual([]);
});

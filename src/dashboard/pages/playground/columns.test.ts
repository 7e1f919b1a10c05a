import { expect, test } from "bun:test";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { answeredBy, columnsOf, deploymentOf, isExpected, keyOf, namedColumns } from "./columns.ts";

test("columns of the address keep their order, once each", () => {
  const text = "model:a%2Cb,dep_1,job_2:ckpt_3,job_2,dep_1,nonsense";
  const columns = columnsOf(text);
  expect(columns.map(keyOf)).toEqual(["model:a%2Cb", "dep_1", "job_2:ckpt_3", "job_2"]);
  expect(columns[0]).toEqual({ kind: "model", name: "a,b" });
});

test("a column finds the deployment of its own checkpoint only", () => {
  const of = (id: string, checkpoint: string | null, status = "serving") =>
    ({ id, model: "job_2", checkpoint, status }) as Deployment;
  const all = [of("dep_1", null), of("dep_2", "ckpt_3"), of("dep_3", "ckpt_4", "stopped")];
  const idsOf = (text: string) => columnsOf(text).map((column) => deploymentOf(column, all)?.id);
  expect(idsOf("job_2,job_2:ckpt_3,job_2:ckpt_4,dep_3")).toEqual(["dep_1", "dep_2", undefined, "dep_3"]);
});

test("base is base: an adapter that answers for a base model is not expected", () => {
  const base = { source: "hub" as const, model: "verk-tiny", checkpoint: null };
  const plain = { id: "mdl_1", name: "verk-tiny", job_id: null, checkpoint_id: null };
  const tuned = { id: "mdl_2", name: "first-run", job_id: "job_1", checkpoint_id: "ckpt_9" };
  const alone = answeredBy("mdl_1")!;
  const adapted = answeredBy("mdl_1+mdl_2")!;
  expect(adapted).toEqual({ base: "mdl_1", adapter: "mdl_2" });
  expect(isExpected(base, alone, plain)).toBe(true);
  expect(isExpected(base, adapted, tuned)).toBe(false);
  const run = { source: "training_job" as const, model: "job_1", checkpoint: null };
  expect(isExpected(run, adapted, tuned)).toBe(true);
  expect(isExpected(run, alone, plain)).toBe(false);
  expect(isExpected({ ...run, checkpoint: "ckpt_1" }, adapted, tuned)).toBe(false);
  expect(answeredBy(null)).toBeUndefined();
});

test("names of a link become deployments, or models that nothing serves yet", () => {
  const deployments = [{ id: "dep_1", name: "demo", status: "serving" }] as unknown as Parameters<
    typeof namedColumns
  >[1];
  expect(namedColumns("demo,dep_1,verk-tiny,demo", deployments)).toEqual([
    { kind: "deployment", id: "dep_1" },
    { kind: "model", name: "verk-tiny" },
  ]);
});

import { expect, test } from "bun:test";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { answeredBy, columnsOf, deploymentOf, isExpected, keyOf, namedColumns } from "./columns.ts";

test("columns of the address keep their order, once each", () => {
  const text = "model:a%2Cb,dep_1,job_2:ckpt_3,job_2,dep_1,nonsense,agent:a%20b";
  const columns = columnsOf(text);
  expect(columns.map(keyOf)).toEqual(["model:a%2Cb", "dep_1", "job_2:ckpt_3", "job_2", "agent:a%20b"]);
  expect(columns[0]).toEqual({ kind: "model", name: "a,b" });
});

test("a column finds the deployment of its own checkpoint only", () => {
  const of = (id: string, checkpoint: string | null, status = "serving") =>
    ({ id, model: "job_2", checkpoint, status }) as Deployment;
  const all = [of("dep_1", null), of("dep_2", "ckpt_3"), of("dep_3", "ckpt_4", "stopped")];
  const idsOf = (text: string) => columnsOf(text).map((column) => deploymentOf(column, all)?.id);
  expect(idsOf("job_2,job_2:ckpt_3,job_2:ckpt_4,dep_3")).toEqual(["dep_1", "dep_2", undefined, "dep_3"]);
});

const base = { source: "hub" as const, model: "verk-tiny", checkpoint: null };
const plain = { id: "mdl_1", name: "verk-tiny", job_id: null, checkpoint_id: null };
const tuned = { id: "mdl_2", name: "carry", job_id: "job_1", checkpoint_id: "ckpt_9" };
const alone = answeredBy("mdl_1")!;
const adapted = answeredBy("mdl_1+mdl_2")!;
const deployed = { kind: "deployment", id: "dep_1" } as const;

test("base is base: an adapter that answers for a base model is not expected", () => {
  expect(adapted).toEqual({ base: "mdl_1", adapter: "mdl_2" });
  expect(isExpected(deployed, base, alone, plain)).toBe(true);
  expect(isExpected(deployed, base, adapted, tuned)).toBe(false);
  const model = { kind: "model", name: "verk-tiny" } as const;
  expect(isExpected(model, base, alone, plain)).toBe(true);
  expect(isExpected(model, base, adapted, tuned)).toBe(false);
  expect(answeredBy(null)).toBeUndefined();
});

test("the result of a run is expected where its deployment names the job or the model", () => {
  const byId = { source: "training_job" as const, model: "job_1", checkpoint: null };
  const byName = { ...byId, model: "carry" };
  for (const named of [byId, byName]) {
    expect(isExpected(deployed, named, adapted, tuned)).toBe(true);
    expect(isExpected(deployed, named, alone, plain)).toBe(false);
  }
  expect(isExpected(deployed, { ...byId, checkpoint: "ckpt_1" }, adapted, tuned)).toBe(false);
});

test("a column of a checkpoint expects this checkpoint, whatever deployment answers", () => {
  const run = (checkpoint: string | null) => ({ kind: "run", job: "job_1", checkpoint }) as const;
  expect(isExpected(run("ckpt_9"), base, adapted, tuned)).toBe(true);
  expect(isExpected(run(null), undefined, adapted, tuned)).toBe(true);
  expect(isExpected(run("ckpt_1"), base, adapted, tuned)).toBe(false);
  expect(isExpected(run("ckpt_9"), base, alone, plain)).toBe(false);
});

test("names of a link become deployments, agents, runs, or models that nothing serves yet", () => {
  const deployments = [{ id: "dep_1", name: "demo", status: "serving" }] as unknown as Parameters<
    typeof namedColumns
  >[1];
  expect(namedColumns("demo,dep_1,verk-tiny,demo,helper@2,job_1", deployments, [{ name: "helper" }])).toEqual([
    { kind: "deployment", id: "dep_1" },
    { kind: "model", name: "verk-tiny" },
    { kind: "agent", name: "helper@2" },
    { kind: "run", job: "job_1", checkpoint: null },
  ]);
});

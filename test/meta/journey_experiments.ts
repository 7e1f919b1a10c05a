import { runExperiments } from "../../src/resources/quality/experiments/running/runner.ts";
import type { TestApp } from "../harness.ts";
import type { Step } from "./journey.ts";

const PATH = "/v1/experiments";

/** Recorded outputs and a string check need neither a model nor the sandbox. */
const request = async (app: TestApp) => {
  const dataset = await app.call("POST", "/v1/datasets", { name: "held", format: "completion" });
  const rows = [{ prompt: "1 + 1", completion: "2", old: "3" }];
  await app.call("POST", `/v1/datasets/${dataset.body.id}/rows`, { rows });
  const config = { operation: "equals" };
  const { body } = await app.call("POST", "/v1/evaluators", { name: "exact", kind: "string_check", config });
  const targets = ["old", "completion"].map((field) => ({ type: "outputs", field }));
  return { dataset: dataset.body.id, targets, evaluators: [body.id] };
};
const experiment = async (app: TestApp, more: object = {}) => {
  const { body } = await app.call("POST", PATH, { ...(await request(app)), ...more });
  return { id: body.id as string };
};
const cancelled = async (app: TestApp) => {
  const made = await experiment(app);
  await app.call("POST", `${PATH}/${made.id}/cancel`);
  return made;
};

export const EXPERIMENTS: Step[] = [
  { operation: `POST ${PATH}`, make: request },
  { operation: `GET ${PATH}` },
  { operation: `GET ${PATH}/{id}`, own: experiment },
  { operation: `GET ${PATH}/{id}/items`, own: experiment },
  { operation: `GET ${PATH}/{id}/summary`, own: experiment },
  { operation: `POST ${PATH}/{id}/cancel`, own: experiment },
  { operation: `DELETE ${PATH}/{id}`, own: cancelled },
];

/** One experiment completes; every item of the other one has an error. */
export async function endExperiments(app: TestApp) {
  await experiment(app);
  await experiment(app, { targets: [{ type: "outputs", field: "nothing" }] });
  await runExperiments(app.ctx, new AbortController().signal);
}

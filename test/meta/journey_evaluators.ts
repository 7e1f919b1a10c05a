import type { TestApp } from "../harness.ts";
import type { Step } from "./journey.ts";

const PATH = "/v1/evaluators";
const CHECK = { kind: "string_check", config: { operation: "contains", value: "four" } };

const evaluator = async (app: TestApp) => {
  const made = await app.call("POST", PATH, { name: `n${crypto.randomUUID()}`, ...CHECK });
  return { id: made.body.id as string };
};

export const EVALUATORS: Step[] = [
  { operation: `POST ${PATH}`, json: { name: "journey", ...CHECK } },
  { operation: `GET ${PATH}` },
  { operation: `GET ${PATH}/{id}`, own: evaluator },
  { operation: `POST ${PATH}/{id}/run`, own: evaluator, json: { rows: [{ output: "four" }] } },
  { operation: `DELETE ${PATH}/{id}`, own: evaluator },
];

import type { TestApp } from "../harness.ts";
import type { Step } from "./journey.ts";

const PATH = "/v1/reward_functions";
const SOURCE = "export const reward = ({ completion }) => completion.length;";
const ROWS = [{ prompt: "p", completion: "four" }];

const rewardFunction = async (app: TestApp) => {
  const made = await app.call("POST", PATH, { name: `n${crypto.randomUUID()}`, source: SOURCE });
  return { id: made.body.id as string };
};

export const REWARDS: Step[] = [
  { operation: `POST ${PATH}`, json: { name: "journey", source: SOURCE } },
  { operation: `GET ${PATH}` },
  { operation: `GET ${PATH}/library` },
  { operation: `POST ${PATH}/run`, json: { source: SOURCE, rows: ROWS } },
  { operation: `GET ${PATH}/{id}`, own: rewardFunction },
  { operation: `GET ${PATH}/{id}/source`, own: rewardFunction, bytes: true },
  { operation: `POST ${PATH}/{id}/run`, own: rewardFunction, json: { rows: ROWS } },
  { operation: `DELETE ${PATH}/{id}`, own: rewardFunction },
];

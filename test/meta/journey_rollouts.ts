import { end } from "../../src/resources/serving/rollouts/service.ts";
import type { TestApp } from "../harness.ts";
import type { Step } from "./journey.ts";

const PATH = "/v1/rollouts";

/** The journey has an active deployment by then. */
const fields = async (app: TestApp) => {
  const { body } = await app.call("POST", "/v1/deployments", {
    model: "journey/served",
    name: `n${crypto.randomUUID()}`,
  });
  return { model: body.id as string };
};
const rollout = async (app: TestApp) => ({
  id: (await app.call("POST", PATH, await fields(app))).body.id as string,
});

export const ROLLOUTS: Step[] = [
  { operation: `POST ${PATH}`, make: fields },
  { operation: `GET ${PATH}` },
  {
    operation: `POST ${PATH}/dataset`,
    make: async (app) => ({ name: "agents", rollouts: [(await rollout(app)).id] }),
  },
  { operation: `GET ${PATH}/{id}`, own: rollout },
  { operation: `GET ${PATH}/{id}/turns`, own: rollout },
  { operation: `POST ${PATH}/{id}/finish`, own: rollout, json: { reward: 1, metrics: { steps: 2 } } },
  { operation: `DELETE ${PATH}/{id}`, own: rollout },
];

/** A limit ends a rollout. */
export const endRollout = async (app: TestApp) => end(app.ctx, (await rollout(app)).id, "seconds");

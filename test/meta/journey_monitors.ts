import { evaluateDue } from "../../src/resources/watching/monitors/evaluate.ts";
import { type TestApp, until } from "../harness.ts";
import type { Step } from "./journey.ts";

const MONITORS_PATH = "/v1/monitors";
const unique = () => `n${crypto.randomUUID()}`;
const BALANCE = { metric: "balance", thresholds: { alert: 1 } };

const monitor = async (app: TestApp) => ({
  id: (await app.call("POST", MONITORS_PATH, { name: unique(), ...BALANCE })).body.id as string,
});

export const MONITORS: Step[] = [
  { operation: `POST ${MONITORS_PATH}`, json: { name: "journey", ...BALANCE } },
  { operation: `POST ${MONITORS_PATH}/preview`, json: { metric: "error_rate", thresholds: { alert: 0.5 } } },
  { operation: `GET ${MONITORS_PATH}` },
  { operation: `GET ${MONITORS_PATH}/{id}`, own: monitor },
  { operation: `PATCH ${MONITORS_PATH}/{id}`, own: monitor, json: { evaluations: 2 } },
  { operation: `GET ${MONITORS_PATH}/{id}/history`, own: monitor },
  { operation: `GET ${MONITORS_PATH}/{id}/values`, own: monitor },
  { operation: `POST ${MONITORS_PATH}/{id}/mute`, own: monitor, json: { seconds: 60 } },
  { operation: `POST ${MONITORS_PATH}/{id}/test`, own: monitor },
  { operation: `DELETE ${MONITORS_PATH}/{id}`, own: monitor },
];

/** A monitor is triggered, and recovers when its threshold is changed. */
export async function evaluateMonitors(app: TestApp) {
  const path = `${MONITORS_PATH}/${(await monitor(app)).id}`;
  for (const [alert, severity] of [
    [1e9, "alert"],
    [-1e9, "ok"],
  ] as const) {
    await app.call("PATCH", path, { thresholds: { alert } });
    await until(`a monitor to be ${severity}`, async () => {
      await evaluateDue(app.ctx, new AbortController().signal);
      return (await app.call("GET", path)).body.severity === severity;
    });
  }
}

const AGENTS_PATH = "/v1/agents";
/** The journey has an active deployment by then. */
const fields = async (app: TestApp) => {
  const { body } = await app.call("POST", "/v1/deployments", { model: "journey/served", name: unique() });
  return { name: unique(), deployment: body.id as string, system_prompt: "Be brief." };
};
const agent = async (app: TestApp) => ({
  id: (await app.call("POST", AGENTS_PATH, await fields(app))).body.id as string,
});

export const AGENTS: Step[] = [
  { operation: `POST ${AGENTS_PATH}`, make: fields },
  { operation: `GET ${AGENTS_PATH}` },
  { operation: `GET ${AGENTS_PATH}/{id}`, own: agent },
  { operation: `DELETE ${AGENTS_PATH}/{id}`, own: agent },
];

import { startFakeTracker } from "../fake_tracker.ts";
import type { TestApp } from "../harness.ts";
import { addJob } from "../tracker_kit.ts";
import type { Step } from "./journey.ts";

const TRACKER = "/v1/settings/integrations/tracker";
let fake: ReturnType<typeof startFakeTracker> | undefined;

const destination = async () => {
  fake ??= startFakeTracker();
  return { type: "mlflow", base_url: fake.url };
};
const tracker = async (app: TestApp) => {
  await app.call("PUT", TRACKER, await destination());
  return {};
};
const published = async (app: TestApp) => {
  const id = addJob(app);
  await app.call("POST", `/v1/training_jobs/${id}/publish`);
  return { id };
};

export const PUBLICITY: Step[] = [
  { operation: "GET /v1/account/audit_log" },
  { operation: `PUT ${TRACKER}`, make: destination },
  { operation: `PUT ${TRACKER}`, make: destination },
  { operation: `GET ${TRACKER}`, own: tracker },
  { operation: `POST ${TRACKER}/test`, own: tracker },
  { operation: `DELETE ${TRACKER}`, own: tracker },
  { operation: "GET /v1/public/runs", shared: true },
  { operation: "GET /v1/public/runs/{id}", own: published, shared: true },
  { operation: "POST /v1/public/runs/{id}/like", own: published, shared: true },
];

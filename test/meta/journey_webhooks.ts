import type { TestApp } from "../harness.ts";
import type { Step } from "./journey.ts";

const URL = "https://127.0.0.1:8443/hook"; // the operator of the journey allows it

const endpoint = async (app: TestApp) => {
  const { body } = await app.call("POST", "/v1/webhooks", { url: URL });
  return { id: body.id as string };
};
const delivery = async (app: TestApp) => {
  const { id } = await endpoint(app);
  const { body } = await app.call("POST", `/v1/webhooks/${id}/test`);
  return { id, delivery: body.id as string };
};

export const WEBHOOKS: Step[] = [
  { operation: "POST /v1/webhooks", json: { url: URL, event_types: ["job.completed"] } },
  { operation: "GET /v1/webhooks" },
  { operation: "GET /v1/webhooks/{id}", own: endpoint },
  { operation: "GET /v1/webhooks/{id}/secret", own: endpoint },
  { operation: "PATCH /v1/webhooks/{id}", own: endpoint, json: { description: "of the journey" } },
  { operation: "POST /v1/webhooks/{id}/rotate_secret", own: endpoint, json: { grace_period_seconds: 60 } },
  { operation: "POST /v1/webhooks/{id}/test", own: endpoint },
  { operation: "GET /v1/webhooks/{id}/deliveries", own: delivery },
  { operation: "GET /v1/webhooks/{id}/deliveries/{delivery}", own: delivery },
  { operation: "POST /v1/webhooks/{id}/deliveries/{delivery}/resend", own: delivery },
  { operation: "POST /v1/webhooks/{id}/recover", own: delivery, json: { since: "2026-01-01T00:00:00Z" } },
  { operation: "DELETE /v1/webhooks/{id}", own: delivery },
];

/** One that is switched off and on again. */
export async function toggleEndpoint(app: TestApp) {
  const { id } = await endpoint(app);
  for (const enabled of [false, true]) await app.call("PATCH", `/v1/webhooks/${id}`, { enabled });
}

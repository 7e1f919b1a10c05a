import { write } from "../../src/platform/db/db.ts";
import { charge } from "../../src/resources/detection/accounts.ts";
import { runBatches } from "../../src/resources/detection/batches/runner.ts";
import { bytesOf, imageOf } from "../detection_kit.ts";
import type { TestApp } from "../harness.ts";
import { startReceiver } from "../receiver.ts";
import type { Step } from "./journey.ts";

const PATH = "/api/detect";
const never = new AbortController().signal;

const image = async () => ({ image: imageOf({ score: 0.9 }) });
const address = async () => {
  const { url } = startReceiver(() => new Response(new Uint8Array(bytesOf({ score: 0.1 }))));
  return { url };
};
const detection = async (app: TestApp) => {
  const { body } = await app.call("POST", PATH, await image());
  return { id: body.id as string };
};
const images = async () => ({ images: [{ id: "a", image: imageOf() }, { image: imageOf() }] });
const batch = async (app: TestApp) => {
  const { body } = await app.call("POST", `${PATH}/batch`, await images());
  return { jobId: body.jobId as string };
};

export const DETECTION: Step[] = [
  { operation: `POST ${PATH}`, make: image },
  { operation: "POST /v1/detect", make: image },
  { operation: `POST ${PATH}/url`, make: address },
  { operation: `GET ${PATH}/{id}`, own: detection },
  { operation: `GET ${PATH}/{id}/crops`, own: detection },
  { operation: `GET ${PATH}/{id}/report`, own: detection },
  { operation: `POST ${PATH}/{id}/feedback`, own: detection, json: { label: "ai" } },
  { operation: `POST ${PATH}/batch`, make: images },
  { operation: `GET ${PATH}/batch/{jobId}`, own: batch },
  { operation: `GET ${PATH}/batch/{jobId}/results`, own: batch },
  { operation: `POST ${PATH}/batch/{jobId}/cancel`, own: batch },
  { operation: "GET /v1/config" },
  { operation: "PUT /v1/config", json: { defaultThreshold: 0.6, webhookUrl: "https://127.0.0.1:8443/hook" } },
  { operation: "POST /v1/config/rotate_secret" },
];

/** Runs the detections that were only accepted so far, and then uses up all credits. */
export async function runDetection(app: TestApp) {
  await runBatches(app.ctx, never);
  const all = { requests: 0, credits: app.ctx.config.detect.initial_credits };
  write(app.ctx.db, (tx) => charge(app.ctx, tx, app.workspaceA, all));
}

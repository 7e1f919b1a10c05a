import { afterEach, expect, test } from "bun:test";
import { imageOf, manyDetecting } from "../../../test/detection_kit.ts";
import { numberIn, parsePrometheus } from "../../../test/prometheus.ts";
import { durable } from "../../platform/db/db.ts";
import { store } from "../watching/metrics/store.ts";
import { runBatches } from "./batches/runner.ts";

const { open, closeAll } = manyDetecting();
afterEach(closeAll);

test("detections are counted by what they say, failures by their code, alone or in a batch, and what waits is shown", async () => {
  const app = open();
  const seen = async () => {
    await durable(app.ctx.db); // a change counts once it is committed
    await store(app.ctx);
    return parsePrometheus((await app.call("GET", "/v1/metrics")).body);
  };
  const workspace = app.workspaceA;
  const json = { image: imageOf({ score: 0.9 }) };
  for (let i = 0; i < 3; i++) await app.call("POST", "/api/detect", json);
  await app.call("POST", "/api/detect", { image: "*" });
  await app.call("POST", "/api/detect/url", { url: "http://10.0.0.1/" });
  const images = [{ image: imageOf({ score: 0.1 }) }, { image: imageOf({ errors: { detector_v0: "no" } }) }];
  await app.call("POST", "/api/detect/batch", { images });
  expect(numberIn(await seen(), "verk_queue_depth", { workspace, queue: "detection_images" })).toBe(2);
  await runBatches(app.ctx, new AbortController().signal);
  const after = await seen();
  const made = (labels: object) => numberIn(after, "verk_detections_total", { workspace, ...labels });
  expect(made({ prediction: "ai", cached: "false" })).toBe(1);
  expect(made({ prediction: "ai", cached: "true" })).toBe(2);
  expect(made({ prediction: "real", cached: "false" })).toBe(1);
  for (const code of ["INVALID_IMAGE", "URL_NOT_ALLOWED", "ALL_MODELS_FAILED"])
    expect(numberIn(after, "verk_detection_failures_total", { workspace, code })).toBe(1);
  expect(numberIn(after, "verk_queue_depth", { queue: "detection_images" })).toBeUndefined();
});

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type JobsApp, jobsApp } from "../jobs_kit.ts";

let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp();
}, 60_000);
afterAll(() => app.close().then(app.remove));

const DATASET = (name: string) => ({ name, format: "prompt" });
const ROWS = [
  ["/v1/datasets", DATASET, ["", "/rows", "/snapshots"]],
  ["/v1/deployments", (name: string) => ({ name, model: "random" }), ["", "/metrics", "/requests"]],
  ["/v1/monitors", (name: string) => ({ name, metric: "error_rate", thresholds: { alert: 0.5 } }), ["", "/history"]],
  ["/v1/annotation_queues", (name: string) => ({ name, mode: "single" }), ["", "/items"]],
] as const;

test.each(ROWS)("%s takes a name where it takes an id", async (path, body, rests) => {
  const name = "über name/1";
  const { status, body: made } = await app.call("POST", path, body(name));
  expect([status, made.error?.message]).toEqual([201, undefined]);
  const at = `${path}/${encodeURIComponent(name)}`;
  for (const rest of rests) {
    const [byId, byName] = [await app.call("GET", `${path}/${made.id}${rest}`), await app.call("GET", `${at}${rest}`)];
    expect([rest, byName.status, byName.body]).toEqual([rest, 200, byId.body]);
  }
  expect((await app.call("GET", at, undefined, { key: app.keyB })).status).toBe(404);
  expect((await app.call("GET", `${path}/${made.id}`, undefined, { key: app.keyB })).status).toBe(404);
  expect((await app.call("GET", `${path}/no-such-name`)).status).toBe(404);
});

test("a training job by its output name, for every verb; a name of several is 422 with the ids", async () => {
  const first = await app.job({ output_name: "poet" });
  const at = "/v1/training_jobs/poet";
  expect((await app.call("GET", at)).body.id).toBe(first);
  for (const rest of ["/events", "/metrics", "/samples", "/checkpoints"])
    expect([rest, (await app.call("GET", at + rest)).status]).toEqual([rest, 200]);
  expect((await app.call("POST", `${at}/pause`)).body).toMatchObject({ id: first, status: "paused" });
  expect((await app.call("POST", `${at}/cancel`)).body.id).toBe(first);
  const second = await app.job({ output_name: "poet" });
  const { status, body } = await app.call("GET", at);
  expect([status, body.error.code, body.error.param]).toEqual([422, "schema", "id"]);
  for (const id of [first, second]) expect(body.error.message).toContain(id);
  expect((await app.call("DELETE", `/v1/training_jobs/${first}`)).status).toBe(200);
  expect((await app.call("GET", at)).body.id).toBe(second);
});

test("two datasets with a name, and a stopped deployment beside an active one", async () => {
  for (let i = 0; i < 2; i++) await app.call("POST", "/v1/datasets", DATASET("twice"));
  const { status, body } = await app.call("DELETE", "/v1/datasets/twice");
  expect([status, body.error.message]).toEqual([422, expect.stringMatching(/several datasets .*ds_\w+, ds_\w+\)/)]);
  const old = await app.call("POST", "/v1/deployments", { name: "bot", model: "random" });
  await app.call("POST", "/v1/deployments/bot/stop");
  expect((await app.call("GET", "/v1/deployments/bot")).body).toMatchObject({ id: old.body.id, status: "stopped" });
  const now = await app.call("POST", "/v1/deployments", { name: "bot", model: "random" });
  expect((await app.call("GET", "/v1/deployments/bot")).body.id).toBe(now.body.id);
});

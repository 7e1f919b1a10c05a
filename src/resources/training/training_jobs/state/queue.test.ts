import { expect, setDefaultTimeout, test } from "bun:test";
import { jobsApp } from "../../../../../test/jobs_kit.ts";

setDefaultTimeout(60_000);

test("D1: a workspace with as many waiting jobs as it may have gets 429, and another workspace does not", async () => {
  const on = await jobsApp({ flags: { "training.max_waiting_jobs": 2 } });
  const job = { method: "sft", dataset: await on.dataset("completion"), reward_source: undefined };
  const first = await on.job(job);
  await on.job(job);
  await on.call("POST", `/v1/training_jobs/${first}/pause`); // a paused job waits too
  const refused = await on.post(job);
  expect(refused).toMatchObject({ status: 429, body: { error: { type: "rate_limit_error", code: "queue_full" } } });
  expect(refused.body.error.message).toContain("training.max_waiting_jobs");
  expect(refused.headers.get("retry-after")).toBe("60");
  const other = await on.post(job, { key: on.keyB });
  expect(other.body.error.code).toBe("resource_not_found"); // its dataset is not there, and that alone is wrong
  await on.call("POST", `/v1/training_jobs/${first}/cancel`);
  expect((await on.post(job)).status).toBe(201);
  await on.close();
  on.remove();
});

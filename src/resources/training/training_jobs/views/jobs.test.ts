import { afterAll, beforeAll, expect, test } from "bun:test";
import { jobsApp } from "../../../../../test/jobs_kit.ts";
import { countRows, planOf } from "../../../../../test/row_counter.ts";

const counting = countRows();
let app: Awaited<ReturnType<typeof jobsApp>>;
beforeAll(async () => {
  app = await jobsApp();
}, 60_000);
afterAll(async () => {
  counting.stop();
  await app.close().then(app.remove);
});

test("D14 a list of one status is read from an index, in its order, and does not walk over other jobs", async () => {
  await app.job();
  const { sql } = await counting.of(() => app.call("GET", "/v1/training_jobs?status=failed&limit=5"));
  const [list = ""] = sql.filter((each) => each.includes('from "training_jobs"'));
  const [plan = "", ...more] = planOf(app.ctx.db.$client, list);
  expect(plan).toContain("training_jobs_by_status (workspace_id=? AND status=?");
  expect(more).toEqual([]); // no sorting
});

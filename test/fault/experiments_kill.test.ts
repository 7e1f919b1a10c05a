// tier: all (sweeps of faults)
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { until } from "../harness.ts";
import { startServing } from "../serving/served.ts";
import { randomFor, SEED, sweep } from "../sweep.ts";

/** The executable is killed again and again while an experiment generates and scores. No item may have two results. */
const KILLS = sweep({ quick: 2, full: 15 });
const ROWS = 12 * (KILLS + 1);
setDefaultTimeout(60_000 * (1 + KILLS));

let server: Awaited<ReturnType<typeof startServing>>;
beforeAll(async () => {
  server = await startServing();
});
afterAll(() => server.stop());

async function created(): Promise<string> {
  const { body: dataset } = await server.call("POST", "/v1/datasets", { name: "held", format: "completion" });
  const rows = Array.from({ length: ROWS }, (_, i) => ({ prompt: `${i} + 1 =`, completion: String(i + 1) }));
  await server.call("POST", `/v1/datasets/${dataset.id}/rows`, { rows });
  const config = { operation: "contains" };
  await server.call("POST", "/v1/evaluators", { name: "exact", kind: "string_check", config });
  const { status, body } = await server.call("POST", "/v1/experiments", {
    dataset: dataset.id,
    targets: [
      { type: "model", model: "verk-tiny" },
      { type: "outputs", field: "completion" },
    ],
    evaluators: ["exact"],
    params: { max_tokens: 4 },
  });
  expect([status, body]).toMatchObject([201, { status: "queued" }]);
  return body.id;
}

test(`an experiment of ${ROWS} rows, its server killed ${KILLS} times: each item has one result (seed ${SEED})`, async () => {
  const random = randomFor("experiment kills");
  const id = await created();
  const doneNow = async () => (await server.get(`/v1/experiments/${id}`)).progress.done as number;
  let kills = 0;
  for (let goal = 1; kills < KILLS && goal < ROWS; goal += 2 + Math.floor(random() * 8)) {
    await until(`${goal} items`, async () => (await doneNow()) >= goal, 120_000);
    await server.kill();
    kills++;
    await server.restart();
  }
  const last = await until(
    "its end",
    async () => {
      const body = await server.get(`/v1/experiments/${id}`);
      return body.finished_at === null ? undefined : body;
    },
    300_000,
  );
  expect(kills).toBe(KILLS);
  expect(last).toMatchObject({ status: "completed", progress: { total: 2 * ROWS, done: 2 * ROWS, failed: 0 } });
  const db = new Database(join(server.dir, "verk.db"), { readonly: true });
  const one = (sql: string) => (db.query(sql).get() as { n: number }).n;
  const facts = {
    items: one("SELECT count(*) AS n FROM experiment_items WHERE finished_at IS NOT NULL"),
    unfinished: one("SELECT count(*) AS n FROM experiment_items WHERE finished_at IS NULL"),
    pairs: one("SELECT count(DISTINCT target || ' ' || row_id) AS n FROM experiment_items"),
    scores: one("SELECT count(*) AS n FROM experiment_scores"),
    ends: one("SELECT count(*) AS n FROM events WHERE type = 'experiment.completed'"),
    deployments: one("SELECT count(*) AS n FROM deployments"),
    pins: one("SELECT count(*) AS n FROM dataset_pins"),
  };
  db.close();
  expect(facts).toEqual({
    items: 2 * ROWS,
    unfinished: 0,
    pairs: 2 * ROWS,
    scores: 2 * ROWS,
    ends: 1,
    deployments: 1,
    pins: 0,
  });
  expect((await server.get(`/v1/deployments/${last.targets[0].deployment_id}`)).status).toBe("stopped");
  const summary = await server.get(`/v1/experiments/${id}/summary`);
  expect(summary.targets[1].evaluators[0]).toMatchObject({ scored: ROWS, mean: 1 });
});

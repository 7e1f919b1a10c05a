/** Metrics of a run that has many points with many keys. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type JobsApp, jobsApp } from "../../../../../test/jobs_kit.ts";
import { LONGEST_TURN_MS, longestTurnMsOf } from "../../../../../test/turns.ts";
import { write } from "../../../../platform/db/db.ts";
import { trainingMetrics } from "../table.ts";

const [STEPS, KEYS] = [1_500, 200];
let app: JobsApp;
let id: string;
beforeAll(async () => {
  app = await jobsApp();
  id = await app.job();
  write(app.ctx.db, (tx) => {
    for (let step = 1; step <= STEPS; step++) {
      const values = Object.fromEntries(
        Array.from({ length: KEYS }, (_, key) => [`k${key}`, ((step * 7) % 1_009) + key]),
      );
      tx.insert(trainingMetrics).values({ jobId: id, step, epoch: 0, time: step, values }).run();
    }
  });
  await app.call("GET", `/v1/training_jobs/${id}/metrics?max_points=1&to_step=5`); // the first request compiles
}, 60_000);
afterAll(() => app.close().then(app.remove));

/** Reads the answer as a client would, and forgets it. */
async function read(query: string) {
  const request = new Request(`http://localhost/v1/training_jobs/${id}/metrics?${query}`, {
    headers: { authorization: `Bearer ${app.keyA}` },
  });
  const response = await app.handle(request);
  expect(response.status).toBe(200);
  let bytes = 0;
  for await (const chunk of response.body!) bytes += chunk.byteLength;
  return bytes;
}

test.each(["max_points=1000", "max_points=10", "max_points=10&keys=k1,k7", "format=csv", "max_points=100000"])(
  "S4: reading metrics with %s lets others in",
  async (query) => {
    let bytes = 0;
    const longest = await longestTurnMsOf(async () => {
      bytes = await read(query);
    });
    expect(bytes).toBeGreaterThan(100);
    expect(longest).toBeLessThan(LONGEST_TURN_MS);
  },
);

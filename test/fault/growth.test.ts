// tier: all (sweeps of faults)
/** Tables that grow without end must not slow down the rest. The tests count rows and statements, never time. */
import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newId } from "../../src/lib/ids.ts";
import { write } from "../../src/platform/db/db.ts";
import { workspaces } from "../../src/resources/access/workspaces/table.ts";
import { reconcile } from "../../src/resources/training/training_jobs/running/reconcile.ts";
import type { Run } from "../../src/resources/training/training_jobs/state/live.ts";
import { trainingJobs } from "../../src/resources/training/training_jobs/table.ts";
import { store } from "../../src/resources/watching/metrics/store.ts";
import { jobRow } from "../fake_trainers.ts";
import { fakeClock, manyApps, type TestApp } from "../harness.ts";
import { countRows, planOf } from "../row_counter.ts";
import { sweep } from "../sweep.ts";

setDefaultTimeout(120_000);
const JOBS = sweep({ quick: 2_000, full: 10_000 });
const DELETED = sweep({ quick: 1_000, full: 5_000 });
const SOME = 300; // rows and statements that may be read whatever there is

let counting: ReturnType<typeof countRows>;
beforeAll(() => {
  counting = countRows();
});
afterAll(() => counting.stop());
const { open, closeAll } = manyApps();
afterEach(closeAll);

function queue(app: TestApp) {
  const blank = { ...jobRow(app.ctx.clock.now(), { workspaceId: app.workspaceA, datasetId: null }), baseModel: "none" };
  const owners = [app.workspaceA, app.workspaceB];
  write(app.ctx.db, (tx) => {
    for (let i = 0; i < JOBS; i++) {
      const owner = owners[i % owners.length] as string;
      const own = { id: newId("job", blank.createdAt), workspaceId: owner, queuedAt: i, priority: (i % 3) - 1 };
      tx.insert(trainingJobs)
        .values({ ...blank, ...own, rateMicros: i % 2 === 0 ? 1_000 : null })
        .run();
    }
  });
}

const busy = (app: TestApp): Run => ({
  jobId: "job_none",
  workspaceId: app.workspaceA,
  save: () => {},
  stop: async () => {},
  over: Promise.resolve(),
  endingAt: undefined,
});

const queued = (app: TestApp) =>
  app.ctx.db.$client.query<{ n: number }, []>("SELECT count(*) AS n FROM training_jobs WHERE status = 'queued'").get()
    ?.n;

test(`D1: with ${JOBS} queued jobs a round of the loop reads no job while all slots are taken`, async () => {
  const app = open({ clock: fakeClock() });
  queue(app);
  app.ctx.state.trainingJobs.addRun(busy(app));
  const took = await counting.of(() => reconcile(app.ctx));
  expect(took.statements).toBeGreaterThan(0);
  expect(took.rows).toBeLessThan(SOME);
  expect(took.statements).toBeLessThan(SOME);
  app.ctx.state.trainingJobs.removeRun("job_none");
});

test("D1: a free slot makes the loop try 16 jobs and read the queue once, only from an index", async () => {
  const app = open({ clock: fakeClock() });
  queue(app);
  const took = await counting.of(async () => {
    await reconcile(app.ctx);
    await app.ctx.state.trainingJobs.fillOnce(async () => {}); // joins the pass that goes on
  });
  expect(queued(app)).toBe(JOBS - 16); // each fails: its model is not there
  expect(took.rows).toBeGreaterThan(JOBS);
  expect(took.rows).toBeLessThan(JOBS + 16 * SOME);
  expect(took.statements).toBeLessThan(16 * SOME);
  const reads = [...new Set(took.sql)].filter((sql) => /^SELECT/i.test(sql) && sql.includes("training_jobs"));
  const plans = reads.filter((sql) => !sql.includes("?")).flatMap((sql) => planOf(app.ctx.db.$client, sql));
  expect(plans.filter((line) => /\b(SCAN|SEARCH) training_jobs/.test(line)).length).toBeGreaterThan(0);
  expect(plans.filter((line) => /SCAN training_jobs(?! USING COVERING INDEX)/.test(line))).toEqual([]);
});

test(`D1: positions of ${JOBS} queued jobs are computed once, then a list reads only its own rows`, async () => {
  const app = open({ clock: fakeClock() });
  queue(app);
  const list = () => app.call("GET", "/v1/training_jobs?limit=100");
  const first = await counting.of(list);
  expect(first.rows).toBeLessThan(JOBS + SOME);
  const again = await counting.of(async () => {
    const { body } = await list();
    expect(body.data).toHaveLength(100);
    const positions = body.data.map(({ queue_position: place }: { queue_position: number }) => place);
    expect(new Set(positions).size).toBe(100);
    expect(Math.min(...positions)).toBeGreaterThanOrEqual(1);
    expect(Math.max(...positions)).toBeLessThanOrEqual(JOBS);
    expect(body.data[0].queue_reason).toContain("waits for earlier jobs");
  });
  expect(again.rows).toBeLessThan(SOME);
  expect(again.statements).toBeLessThan(SOME);
});

function deleteMany(app: TestApp) {
  write(app.ctx.db, (tx) => {
    for (let i = 0; i < DELETED; i++)
      tx.insert(workspaces)
        .values({
          id: newId("ws", i),
          name: `w${i}`,
          status: "deleted",
          paymentCustomerId: `cus_${i}`,
          metadata: {},
          createdAt: app.ctx.clock.now() + i,
          updatedAt: i,
        })
        .run();
  });
}

test(`D3: ${DELETED} deleted workspaces do not slow the counters`, async () => {
  const app = open({ clock: fakeClock() });
  await app.call("GET", "/v1/volumes");
  deleteMany(app);
  const took = await counting.of(() => store(app.ctx));
  expect(took.statements).toBeGreaterThan(0);
  expect(took.rows).toBeLessThan(SOME);
});

test(`D3: lists of workspaces and a scrape do not read ${DELETED} deleted workspaces`, async () => {
  const app = open({ clock: fakeClock() });
  deleteMany(app);
  const plans = async (path: string) => {
    const { sql } = await counting.of(() => app.call("GET", path, undefined, { key: app.adminKey }));
    const reads = [...new Set(sql)].filter((each) => /^\s*SELECT/i.test(each) && /\bworkspaces\b/.test(each));
    return reads.flatMap((each) => planOf(app.ctx.db.$client, each.replaceAll("?", "1")));
  };
  for (const path of ["/v1/workspaces", "/v1/metrics"]) {
    const seen = (await plans(path)).filter((line) => /\b(workspaces|w)\b/.test(line));
    expect(seen.some((line) => line.includes("workspaces_living"))).toBe(true);
    expect(seen.filter((line) => /SCAN (workspaces|w)\b/.test(line) && !line.includes("workspaces_living"))).toEqual(
      [],
    );
  }
});

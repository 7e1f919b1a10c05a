import { write } from "../src/platform/db/db.ts";
import { track } from "../src/resources/training/tracker/send.ts";
import { follow } from "../src/resources/training/tracker/service.ts";
import { type JobRow, trainingJobs, trainingMetrics } from "../src/resources/training/training_jobs/table.ts";
import { type FakeTracker, startFakeTracker } from "./fake_tracker.ts";
import { jobRow } from "./fake_trainers.ts";
import { fakeClock, type Options, type TestApp, testApp } from "./harness.ts";

export const PATH = "/v1/settings/integrations/tracker";
export const KEY = "s3cr3t-tracker-key";

/** The application with a clock of its own, a fake tracker that it may dial, and jobs that only the test moves. */
export function trackerWorld(options: Options & { key?: string; type?: "mlflow" | "wandb" } = {}) {
  const { key, type = "mlflow", ...rest } = options;
  const clock = fakeClock();
  const app = testApp({ clock, flags: { "network.allow": ["127.0.0.1"] }, ...rest });
  const tracker = startFakeTracker(key === undefined ? {} : { key });
  return Object.assign(app, {
    clock,
    tracker,
    setUp: (more: object = {}) => app.call("PUT", PATH, { type, base_url: tracker.url, project: "sums", ...more }),
    add: (more: Partial<JobRow> = {}) => addJob(app, more),
    change: (id: string, set: Partial<JobRow>) => change(app, id, set),
    step: (id: string, step: number, values: Record<string, number> = { reward: step, loss: 1 / step }) =>
      tellStep(app, id, step, values),
    tick: () => tick(app),
    job: async (id: string) => (await app.call("GET", `/v1/training_jobs/${id}`)).body,
    state: async () => (await app.call("GET", PATH)).body,
    async end() {
      tracker.stop();
      await app.close();
      app.remove();
    },
  });
}
export type TrackerWorld = ReturnType<typeof trackerWorld>;

/** Adds a job like `POST /v1/training_jobs` does. */
export function addJob(app: TestApp, more: Partial<JobRow> = {}): string {
  const now = app.ctx.clock.now();
  const row = jobRow(now, { workspaceId: app.workspaceA, datasetId: null, ...more });
  write(app.ctx.db, (tx) => {
    tx.insert(trainingJobs).values(row).run();
    follow(tx, row, now);
  });
  return row.id;
}

const change = (app: TestApp, id: string, set: Partial<JobRow>) => {
  const columns = Object.entries(set).map(([key]) => `${key.replaceAll(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)} = ?`);
  const values = Object.values(set) as (string | number | null)[];
  app.ctx.db.$client.query(`UPDATE training_jobs SET ${columns.join()} WHERE id = ?`).run(...values, id);
};

export const tellStep = (app: TestApp, jobId: string, step: number, values: Record<string, number>) =>
  write(app.ctx.db, (tx) =>
    tx
      .insert(trainingMetrics)
      .values({ jobId, step, epoch: 0, time: app.ctx.clock.now() + step, values })
      .run(),
  );

export async function tick(app: TestApp): Promise<void> {
  track(app.ctx);
  await app.ctx.state.tracker.idle();
}

export const routesOf = (tracker: FakeTracker) =>
  tracker.requests.map(({ path }) => path.replace("/api/2.0/mlflow/", "").replace(/\?.*/, ""));

export type FakeRunOf = NonNullable<ReturnType<FakeTracker["runs"]["get"]>>;

/** The only run that it has. */
export function onlyRun({ tracker }: TrackerWorld): FakeRunOf {
  const [run, ...others] = [...tracker.runs.values()];
  if (!run || others.length > 0) throw new Error(`it has ${tracker.runs.size} runs`);
  return run;
}

/** For tests that begin several: `const { begin, endAll } = manyWorlds(); afterEach(endAll)`. */
export function manyWorlds() {
  const worlds: TrackerWorld[] = [];
  return {
    begin(options: Parameters<typeof trackerWorld>[0] = {}): TrackerWorld {
      const world = trackerWorld(options);
      worlds.push(world);
      return world;
    },
    async endAll() {
      for (const world of worlds.splice(0)) await world.end();
    },
  };
}

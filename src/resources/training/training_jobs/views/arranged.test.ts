import { afterAll, beforeAll, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { type JobsApp, jobsApp } from "../../../../../test/jobs_kit.ts";
import { write } from "../../../../platform/db/db.ts";
import { cardFigures, MOST_ROWS, store } from "../running/system.ts";
import { trainingJobs, trainingSystem } from "../table.ts";

const PATH = "/v1/training_jobs";
let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp();
}, 60_000);
afterAll(() => app.close().then(app.remove));

const listed = async (query: string) => (await app.call("GET", `${PATH}?${query}`)).body;
const idsOf = async (query: string) => (await listed(query)).data.map(({ id }: { id: string }) => id);

test("tags, notes and a group are given, changed, listed by, inherited by a clone, and told in an event", async () => {
  const id = await app.job({ tags: ["a", "b", "a"], notes: "first\ntry", group: "sums" });
  const other = await app.job();
  expect(await app.get(id)).toMatchObject({ tags: ["a", "b"], notes: "first\ntry", group: "sums" });
  expect(await app.get(other)).toMatchObject({ tags: [], notes: "", group: null });
  expect(await idsOf("tag=b")).toEqual([id]);
  expect(await idsOf("group=sums")).toEqual([id]);
  expect((await app.call("PATCH", `${PATH}/${other}`, { tags: ["b"] }, { key: app.keyB })).status).toBe(404);
  const changed = await app.call("PATCH", `${PATH}/${other}`, { tags: ["b", "100 %"], group: "sums" });
  expect(changed.body).toMatchObject({ id: other, tags: ["b", "100 %"], notes: "", group: "sums" });
  expect(await idsOf("tag=b&group=sums")).toEqual([other, id]);
  expect(await idsOf(`tag=${encodeURIComponent("100 %")}`)).toEqual([other]);
  await app.call("PATCH", `${PATH}/${other}`, { group: null });
  expect(await idsOf("group=sums")).toEqual([id]);
  const { body: events } = await app.call("GET", "/v1/events?limit=100");
  const updates = events.data.filter(({ type }: { type: string }) => type === "job.updated");
  expect(updates.map(({ data }: { data: { id: string } }) => data.id)).toEqual([other, other]);
  const clone = await app.job({ source_job: id });
  expect(await app.get(clone)).toMatchObject({ tags: ["a", "b"], notes: "", group: "sums" });
  for (const bad of [{ tags: [""] }, { tags: Array(21).fill("x") }, { notes: "x".repeat(10_001) }, { group: "" }])
    expect((await app.call("PATCH", `${PATH}/${id}`, bad)).status).toBe(422);
});

test("a list has only the chosen fields, in longer pages, and says the name of the dataset", async () => {
  const id = await app.job({ hyperparameters: { max_steps: 2 } });
  write(app.ctx.db, (tx) => {
    const latestMetrics = { reward: 0.5, "rewards/a.b/mean": 1 };
    tx.update(trainingJobs).set({ latestMetrics }).where(eq(trainingJobs.id, id)).run();
  });
  const fields = "output_name,hyperparameters.max_steps,latest_metrics.rewards/a.b/mean,latest_metrics.none,dataset";
  const { data } = await listed(`limit=1000&fields=${encodeURIComponent(fields)}`);
  const job = data.find((each: { id: string }) => each.id === id);
  expect(job).toEqual({
    id,
    object: "training_job",
    output_name: expect.any(String),
    hyperparameters: { max_steps: 2 },
    latest_metrics: { "rewards/a.b/mean": 1 },
    dataset: { id: await app.dataset("prompt"), name: "prompt", snapshot_id: "@snap-1", num_rows: 3 },
  });
  expect((await app.get(id)).headline_metric).toEqual({ name: "reward", value: 0.5, better: "higher" });
  const wrong = await app.call("GET", `${PATH}?fields=hyperparameter.max_steps`);
  expect([wrong.status, wrong.body.error.message]).toEqual([
    422,
    expect.stringContaining("did you mean hyperparameters"),
  ]);
  expect((await app.call("GET", `${PATH}?limit=101`)).status).toBe(422);
});

test("a long page with chosen fields has every job once, in order, and a cursor for the rest", async () => {
  const before = (await idsOf("limit=1000&fields=status")).length;
  const origin = await app.job();
  const row = app.ctx.db.select().from(trainingJobs).where(eq(trainingJobs.id, origin)).get();
  if (!row) throw new Error("no job");
  write(app.ctx.db, (tx) => {
    for (let i = 0; i < 230; i++)
      tx.insert(trainingJobs)
        .values({ ...row, id: `job_${String(i).padStart(26, "0")}`, createdAt: row.createdAt - i })
        .run();
  });
  const all = await idsOf("limit=1000&fields=status");
  expect([all.length, new Set(all).size]).toEqual([before + 231, before + 231]);
  const first = await listed("limit=120&fields=status");
  expect([first.data.length, first.has_more]).toEqual([120, true]);
  const rest = await listed(`limit=1000&fields=status&after=${first.data.at(-1).id}`);
  expect([...first.data, ...rest.data].map(({ id }: { id: string }) => id)).toEqual(all);
});

test("figures of the machine are thinned as a job grows, and shown in order", async () => {
  const id = await app.job();
  const rows = () => app.ctx.db.select().from(trainingSystem).where(eq(trainingSystem.jobId, id)).all();
  const start = 1_800_000_000_000;
  const hours = (from: number, to: number) =>
    write(app.ctx.db, (tx) => {
      for (let at = from * 3_600_000; at < to * 3_600_000; at += 10_000) store(tx, id, start + at, { cpu_percent: 5 });
    });
  hours(0, 1);
  expect(rows().length).toBe(360);
  hours(1, 9);
  expect(rows().length).toBeLessThanOrEqual(MOST_ROWS);
  expect(rows().length).toBeGreaterThan(MOST_ROWS / 2);
  const { body } = await app.call("GET", `${PATH}/${id}/system`);
  const times = body.data.map(({ time }: { time: string }) => Date.parse(time));
  expect(times).toEqual(times.toSorted((a: number, b: number) => a - b));
  expect(times[0]).toBe(start);
  expect(times.at(-1)).toBeGreaterThan(start + 8.9 * 3_600_000);
  expect((await app.call("GET", `${PATH}/${id}/system`, undefined, { key: app.keyB })).status).toBe(404);
});

test("several cards are one figure; what no card reports is missing", () => {
  const card = (usedBytes: number, utilizationPercent: number | null, temperatureCelsius: number | null) => ({
    usedBytes,
    utilizationPercent,
    temperatureCelsius,
    powerWatts: null,
  });
  expect(cardFigures([])).toEqual({});
  expect(cardFigures([card(1, 80, 60), card(2, 40, null)])).toEqual({
    gpu_percent: 60,
    gpu_memory_bytes: 3,
    gpu_temperature_celsius: 60,
  });
});

import { afterEach, expect, test } from "bun:test";
import { tarGz } from "../../../../test/archives.ts";
import { jobRow } from "../../../../test/fake_trainers.ts";
import { fakeClock, manyApps, type Options, type TestApp } from "../../../../test/harness.ts";
import { createHandler } from "../../../http/server.ts";
import { write } from "../../../platform/db/db.ts";
import { mainPort } from "../../../routes.ts";
import { type JobRow, trainingJobs, trainingMetrics } from "../training_jobs/table.ts";
import { millisecondsOf } from "./service.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const PATH = "/v1/public/runs";
const begin = (options: Options = {}) => {
  const clock = fakeClock();
  return Object.assign(open({ clock, ...options }), { clock });
};
const anonymous = { key: null };
const get = (app: TestApp, path = "", headers: Record<string, string> = {}) =>
  app.call("GET", `${PATH}${path}`, undefined, { ...anonymous, headers });
const idsOf = ({ body }: { body: { data: { id: string }[] } }) => body.data.map((run) => run.id);

function add(app: TestApp, more: Partial<JobRow> = {}): string {
  const row = jobRow(app.ctx.clock.now(), { workspaceId: app.workspaceA, datasetId: null, ...more });
  write(app.ctx.db, (tx) => tx.insert(trainingJobs).values(row).run());
  return row.id;
}
const publish = (app: TestApp, id: string) => app.call("POST", `/v1/training_jobs/${id}/publish`);
async function run(app: TestApp, more: Partial<JobRow> = {}): Promise<string> {
  const id = add(app, more);
  await publish(app, id);
  return id;
}
const report = (app: TestApp, jobId: string, step: number, values: Record<string, number>) =>
  write(app.ctx.db, (tx) => tx.insert(trainingMetrics).values({ jobId, step, epoch: 0, time: 1, values }).run());

test("P6 public run: it has the listed fields and no others, and hub_repo_url is null before a push", async () => {
  const app = begin();
  const startedAt = app.clock.now();
  const more = { step: 7, totalSteps: 20, startedAt, completedAt: startedAt + 90_500, trackerRunUrl: "https://t/1" };
  const id = add(app, { method: "grpo", baseModel: "org/model", outputName: "sums", ...more });
  report(app, id, 1, { reward: 0.25, loss: 1 });
  report(app, id, 6, { reward: 0.75, loss: 1 });
  report(app, id, 7, { loss: 1 });
  app.clock.advance(1_000);
  await publish(app, id);
  const { status, body } = await get(app);
  expect(status).toBe(200);
  expect(body).toEqual({
    object: "list",
    has_more: false,
    next_cursor: null,
    data: [
      {
        object: "public_run",
        id,
        name: "sums",
        method: "grpo",
        status: "queued",
        publisher: "alpha",
        like_count: 0,
        base_model: "org/model",
        current_step: 7,
        total_steps: 20,
        started_at: "2026-01-01T00:00:00.000Z",
        completed_at: "2026-01-01T00:01:30.500Z",
        duration_seconds: 90.5,
        published_at: "2026-01-01T00:00:01.000Z",
        hub_repo_url: null,
        tracker_run_url: "https://t/1",
        headline_metric: { key: "reward", latest: 0.75, first: 0.25, delta: 0.5, step: 6 },
      },
    ],
  });
  expect((await get(app, `/${id}`)).body).toEqual(body.data[0]);
});

test("a clock that was set back makes no negative duration", async () => {
  const app = begin();
  const startedAt = app.clock.now() + 60_000;
  await run(app, { startedAt });
  await run(app, { startedAt, completedAt: startedAt - 1 });
  expect((await get(app)).body.data.map((each: Record<string, unknown>) => each["duration_seconds"])).toEqual([0, 0]);
});

test("a page continues strictly before its cursor, and runs of the same millisecond are not lost between pages", async () => {
  const app = begin();
  const ids = [];
  for (let i = 0; i < 5; i++) ids.push(await run(app)); // the clock stands still
  const seen: string[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const { body } = await get(app, `?limit=2${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    seen.push(...body.data.map((each: { id: string }) => each.id));
    expect(body.has_more).toBe(body.next_cursor !== null);
    cursor = body.next_cursor;
  }
  expect(seen).toEqual(ids.reverse());
  const [newest] = (await get(app)).body.data;
  const before = await get(app, `?before=${newest.published_at}`);
  expect(idsOf(before)).toEqual(seen.slice(1));
  expect(idsOf(await get(app, `?cursor=${newest.published_at}`))).toEqual(seen.slice(1));
});

test("an unpublished run disappears, and a run that is published again is the newest", async () => {
  const app = begin();
  const first = await run(app);
  const second = await run(app);
  app.clock.advance(10);
  await app.call("DELETE", `/v1/training_jobs/${first}/publish`);
  expect(idsOf(await get(app))).toEqual([second]);
  await publish(app, first);
  expect(idsOf(await get(app))).toEqual([first, second]);
  expect((await app.call("GET", `/v1/training_jobs/${first}`)).body.published_at).toBe("2026-01-01T00:00:00.010Z");
});

test.each(["yesterday", "2026-13-01T00:00:00Z", "2026-01-01", "0"])(
  "the cursor %s is refused by name",
  async (text) => {
    const app = begin();
    const { status, body } = await get(app, `?cursor=${text}`);
    expect([status, body.error.code, body.error.param]).toEqual([400, "invalid_cursor", "cursor"]);
  },
);

test("a cursor may have an offset, or be finer than a millisecond", () => {
  expect(millisecondsOf("2026-01-01T01:00:00+01:00")).toBe(Date.UTC(2026, 0, 1));
  expect(millisecondsOf("2026-01-01T01:00:00 01:00")).toBe(Date.UTC(2026, 0, 1));
  expect(millisecondsOf("2026-01-01T00:00:00.0001Z")).toBe(Date.UTC(2026, 0, 1) + 1);
  expect(millisecondsOf("2026-01-01T00:00:00.000000Z")).toBe(Date.UTC(2026, 0, 1));
});

test("a suspended workspace shows nothing, nor does a server with the list turned off", async () => {
  const app = begin();
  const id = await run(app);
  await app.call("POST", `/v1/workspaces/${app.workspaceA}/suspend`, undefined, { key: app.adminKey });
  expect(idsOf(await get(app))).toEqual([]);
  expect((await get(app, `/${id}`)).status).toBe(404);
  const off = begin({ flags: { "public_runs.enabled": false } });
  const hidden = await run(off);
  expect(idsOf(await get(off))).toEqual([]);
  expect((await get(off, `/${hidden}`)).status).toBe(404);
});

test("answers may be cached for a short time and are revalidated by their tag", async () => {
  const app = begin();
  const id = await run(app);
  const first = await get(app);
  expect(first.headers.get("cache-control")).toBe("public, max-age=15, must-revalidate");
  const etag = first.headers.get("etag") as string;
  const again = await get(app, "", { "if-none-match": etag });
  expect([again.status, again.body]).toEqual([304, ""]);
  await app.call("POST", `${PATH}/${id}/like`, undefined, anonymous);
  expect((await get(app, "", { "if-none-match": etag })).status).toBe(200);
});

test("an address likes a run once, and is stored as a hash", async () => {
  const app = begin();
  const id = await run(app);
  const like = () => app.call("POST", `${PATH}/${id}/like`, undefined, anonymous);
  expect((await like()).body.like_count).toBe(1);
  expect((await like()).body).toMatchObject({ object: "public_run", id, like_count: 1 });
  const [row] = app.ctx.db.$client.query("SELECT client FROM public_run_likes").all() as { client: string }[];
  expect(row?.client).toMatch(/^[\w-]{43}$/);
});

test("likes beyond the rate of an address are refused with the time to wait", async () => {
  const app = begin();
  const id = await run(app);
  const statuses: number[] = [];
  for (let i = 0; i < 11; i++)
    statuses.push((await app.call("POST", `${PATH}/${id}/like`, undefined, anonymous)).status);
  expect(statuses).toEqual([...Array(10).fill(200), 429]);
  app.clock.advance(2_000);
  expect((await app.call("POST", `${PATH}/${id}/like`, undefined, anonymous)).status).toBe(200);
});

test("reads beyond the rate of an address are refused", async () => {
  const app = begin({ flags: { "public_runs.rate_limit_per_second": 1, "public_runs.rate_limit_burst": 2 } });
  const statuses = [];
  for (let i = 0; i < 3; i++) statuses.push((await get(app)).status);
  expect(statuses).toEqual([200, 200, 429]);
});

test("a job created with publish is in the list at once; a clone does not inherit publish", async () => {
  const app = begin();
  const form = new FormData();
  form.set("file", new Blob([tarGz({ name: "main.sh", content: "true" })]), "code.tar.gz");
  const artifact = (await app.call("POST", "/v1/code_artifacts", undefined, { raw: form })).body.id;
  const request = { method: "custom", code_artifact_id: artifact, command: "sh main.sh --secret", publish: true };
  const { body: job } = await app.call("POST", "/v1/training_jobs", request);
  expect([job.publish, job.published_at]).toEqual([true, "2026-01-01T00:00:00.000Z"]);
  const { body: clone } = await app.call("POST", "/v1/training_jobs", { source_job: job.id });
  expect([clone.publish, clone.published_at]).toEqual([false, null]);
  const { body } = await get(app);
  expect(body.data).toMatchObject([{ id: job.id, base_model: null, headline_metric: null, duration_seconds: 0 }]);
});

test("each address counts, and a network of IPv6 is one", async () => {
  const app = begin({ flags: { "http.trusted_proxies": ["127.0.0.1"] } });
  const id = await run(app);
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: createHandler(app.ctx, mainPort(app.ctx)) });
  app.ctx.state.http.listener = server;
  const counts: number[] = [];
  for (const from of ["198.51.100.1", "198.51.100.2", "198.51.100.1", "2001:db8::1", "2001:db8::2"]) {
    const headers = { "x-forwarded-for": from };
    const answer = await fetch(`${server.url.origin}${PATH}/${id}/like`, { method: "POST", headers });
    counts.push(((await answer.json()) as { like_count: number }).like_count);
  }
  await server.stop(true);
  expect(counts).toEqual([1, 2, 2, 3, 3]);
});

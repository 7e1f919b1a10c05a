import { afterEach, expect, test } from "bun:test";
import { startFakeTracker } from "../../../../test/fake_tracker.ts";
import { tickOf } from "../../../../test/loops_kit.ts";
import { manyWorlds, onlyRun, PATH } from "../../../../test/tracker_kit.ts";

const { begin, endAll } = manyWorlds();
afterEach(endAll);

test("a job of before the integration is not told, nor one of after its removal; one that has begun is, to its end", async () => {
  const world = begin();
  world.add();
  await world.setUp();
  const known = world.add();
  await world.tick();
  const waiting = world.add(); // the tracker has not heard of it
  expect((await world.call("DELETE", PATH)).body).toEqual({
    id: "tracker",
    object: "tracker_integration",
    deleted: true,
  });
  world.add();
  world.step(known, 1, { reward: 5 });
  world.step(waiting, 1, { reward: 6 });
  world.change(known, { status: "completed", startedAt: 1, completedAt: 2 });
  world.clock.advance(3_000);
  await world.tick();
  expect([onlyRun(world).tags["verk.job_id"], onlyRun(world).status]).toEqual([known, "FINISHED"]);
  expect(world.tracker.told()).toEqual(["1 reward=5"]);
  expect((await world.call("GET", PATH)).status).toBe(404);
});

test("a tracker that keeps refusing is given up with a note, and a new PUT tries again", async () => {
  const world = begin();
  await world.setUp();
  const id = world.add();
  world.tracker.trouble.before = () => new Response("no such page", { status: 404 });
  for (let i = 0; i < 12; i++) {
    await world.tick();
    world.clock.advance(700_000);
  }
  expect((await world.state()).runs).toEqual({ pending: 0, failing: 0, given_up: 1 });
  const { data } = (await world.call("GET", `/v1/training_jobs/${id}/events`)).body;
  expect(data.filter(({ type }: { type: string }) => type === "tracker.given_up")).toEqual([
    expect.objectContaining({ level: "warn", message: expect.stringContaining("Reporting to the tracker stopped") }),
  ]);
  expect(world.tracker.requests).toHaveLength(10);
  delete world.tracker.trouble.before;
  await world.setUp();
  await world.tick();
  expect(onlyRun(world).tags["verk.job_id"]).toBe(id);
});

const YEAR_MS = 365 * 86_400_000;

test("clock: a jump of a year ahead gives no tracker up, and its reports come on time", async () => {
  const world = begin();
  await world.setUp();
  world.add();
  world.tracker.trouble.before = () => new Response(null, { status: 503 });
  const tick = async () => {
    await tickOf(world.ctx, "tracker.send");
    await world.ctx.state.tracker.idle();
  };
  await tick();
  world.clock.set(YEAR_MS);
  world.clock.advance(6_000);
  await tick();
  expect((await world.state()).runs).toMatchObject({ failing: 1, given_up: 0 });
  delete world.tracker.trouble.before;
  world.clock.advance(20_000);
  await tick();
  expect((await world.state()).runs.failing).toBe(0);
});

test("clock: a jump of a year back delays no report and no pause by a year", async () => {
  const world = begin();
  await world.setUp();
  const id = world.add();
  world.tracker.trouble.before = () => new Response(null, { status: 503 });
  await world.tick();
  world.clock.set(-YEAR_MS);
  delete world.tracker.trouble.before;
  world.clock.advance(6_000);
  await world.tick();
  expect(onlyRun(world).tags["verk.job_id"]).toBe(id);
});

test("a tracker that moved is followed by jobs that it has not heard of", async () => {
  const world = begin();
  const stopped = startFakeTracker();
  stopped.stop();
  await world.setUp({ base_url: stopped.url });
  world.add();
  await world.tick();
  expect((await world.state()).runs.failing).toBe(1);
  await world.setUp({ project: "elsewhere" });
  world.clock.advance(6_000);
  await world.tick();
  expect([...world.tracker.experiments.keys()]).toEqual(["elsewhere"]);
  expect(onlyRun(world).experiment).toBe("1");
});

test.each([
  [{ base_url: "ftp://x" }, 422, "/base_url"],
  [{ base_url: "http://127.0.0.2:5000" }, 400, "/base_url"],
  [{ base_url: "http://169.254.169.254" }, 400, "/base_url"],
  [{ base_url: "https://user:pass@mlflow.example.com" }, 400, "/base_url"],
  [{ base_url: "https://mlflow.example.com?token=x" }, 422, "/base_url"],
  [{ base_url: "https://mlflow.example.com", type: "neptune" }, 422, "/type"],
  [{ base_url: "https://mlflow.example.com", type: "wandb", project: "a/b/c" }, 422, "/project"],
  [{ base_url: "https://mlflow.example.com", secret_name: "NONE" }, 422, "/secret_name"],
  [{ base_url: "https://mlflow.example.com", secret_name: "BOUND" }, 422, "/secret_name"],
  [{}, 422, "/base_url"],
])("%j is refused with its field", async (body, status, param) => {
  const world = begin();
  await world.call("PUT", "/v1/secrets/BOUND", { value: "v", scope_host: "elsewhere.example.com" });
  const answer = await world.call("PUT", PATH, body);
  expect([answer.status, answer.body.error.param]).toEqual([status, param]);
});

test("it is set up, shown, changed and removed, with an event each, and is a workspace's own", async () => {
  const world = begin();
  expect((await world.call("GET", PATH)).status).toBe(404);
  expect((await world.setUp()).status).toBe(201);
  const { status, body } = await world.call("PUT", PATH, { base_url: `${world.tracker.url}/`, project: "other" });
  expect([status, body.base_url, body.project, body.type]).toEqual([200, world.tracker.url, "other", "mlflow"]);
  expect((await world.call("GET", PATH, undefined, { key: world.keyB })).status).toBe(404);
  expect((await world.call("DELETE", PATH, undefined, { key: world.keyB })).status).toBe(404);
  await world.call("DELETE", PATH);
  const { data } = (await world.call("GET", "/v1/events?limit=100")).body;
  const types = data.map((event: { type: string }) => event.type).filter((type: string) => type.startsWith("tracker"));
  expect(types.sort()).toEqual(["created", "deleted", "updated"].map((what) => `tracker_integration.${what}`));
});

test("P0 metadata: the tracker integration has it", async () => {
  const world = begin();
  const { base_url } = (await world.setUp()).body;
  const put = (more: object) => world.call("PUT", PATH, { base_url, ...more });
  expect((await put({ metadata: { team: "rl" } })).body).toMatchObject({ metadata: { team: "rl" } });
  expect((await world.call("GET", PATH)).body).toMatchObject({ metadata: { team: "rl" } });
  expect((await put({})).body).toMatchObject({ metadata: {} });
});

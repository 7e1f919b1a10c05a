import { afterEach, expect, test } from "bun:test";
import { startFakeTracker } from "../../../../test/fake_tracker.ts";
import { until } from "../../../../test/harness.ts";
import { KEY, manyWorlds, onlyRun, PATH } from "../../../../test/tracker_kit.ts";
import { track } from "./send.ts";

const { begin, endAll } = manyWorlds();
afterEach(endAll);

test("an answer that was lost is no second run and no second point", async () => {
  const world = begin();
  await world.setUp();
  const id = world.add();
  world.step(id, 1);
  const lost = new Set(["runs/create", "runs/log-batch", "runs/update"]);
  world.tracker.trouble.after = ({ path }) => {
    const route = path.replace("/api/2.0/mlflow/", "");
    if (!lost.delete(route)) return undefined;
    return new Response("upstream went away", { status: 502 });
  };
  for (let i = 0; i < 8; i++) {
    await world.tick();
    world.clock.advance(60_000);
  }
  expect(lost.size).toBe(0);
  world.step(id, 2);
  lost.add("runs/log-batch");
  for (let i = 0; i < 3; i++) {
    await world.tick();
    world.clock.advance(60_000);
  }
  expect(onlyRun(world).status).toBe("SCHEDULED");
  expect(world.tracker.told()).toEqual(["1 reward=1", "1 loss=1", "2 reward=2", "2 loss=0.5"]);
});

test("a batch that was taken in part is completed", async () => {
  const world = begin();
  await world.setUp();
  const id = world.add();
  await world.tick();
  for (const step of [1, 2]) world.step(id, step);
  let first = true;
  world.tracker.trouble.before = ({ path, body }) => {
    if (!path.endsWith("log-batch") || !first) return undefined;
    first = false;
    const [run] = world.tracker.runs.values();
    run?.metrics.push(...(body["metrics"] as NonNullable<typeof run>["metrics"]).slice(0, 3));
    return new Response("half of it", { status: 500 });
  };
  for (let i = 0; i < 2; i++) {
    world.clock.advance(60_000);
    await world.tick();
  }
  expect(world.tracker.told()).toEqual(["1 reward=1", "1 loss=1", "2 reward=2", "2 loss=0.5"]);
});

test("a wrong key is told in words without the key, and a new one under the same name mends it", async () => {
  const world = begin({ key: `Bearer ${KEY}` });
  await world.call("PUT", "/v1/secrets/TRACKER_KEY", { value: "wrong-key-123" });
  await world.setUp({ secret_name: "TRACKER_KEY" });
  const id = world.add();
  await world.tick();
  const { runs, last_error } = await world.state();
  expect(runs).toEqual({ pending: 1, failing: 1, given_up: 0 });
  expect(last_error).toMatchObject({ job_id: id, message: expect.stringContaining("401") });
  expect(JSON.stringify(world.ctx.db.$client.query("SELECT * FROM tracker_runs").all())).not.toContain("wrong-key-123");
  const tried = (await world.call("POST", `${PATH}/test`)).body;
  expect(tried).toMatchObject({ ok: false, error: { code: "denied" } });
  expect(JSON.stringify(tried)).not.toContain("wrong-key-123");
  await world.call("PUT", "/v1/secrets/TRACKER_KEY", { value: KEY });
  world.clock.advance(6_000);
  await world.tick();
  expect(onlyRun(world).tags["verk.job_id"]).toBe(id);
  expect((await world.call("POST", `${PATH}/test`)).body).toMatchObject({ ok: true, error: null });
  expect(world.log.join("\n")).not.toContain(KEY);
});

test.each([
  ["wandb", "wrong-key-123"],
  ["mlflow", "user:wrong-key-123"],
  ["mlflow", 'wrong-"key"-123'],
] as const)("a key of %s that the tracker repeats, in whatever form, is shown to nobody: %s", async (type, value) => {
  const world = begin({ key: "another", type });
  await world.call("PUT", "/v1/secrets/TRACKER_KEY", { value });
  await world.setUp({ secret_name: "TRACKER_KEY" });
  world.add();
  world.tracker.trouble.refused = (sent) => Response.json({ sent }, { status: 401 });
  await world.tick();
  const sent = world.tracker.requests[0]?.authorization?.split(" ")[1] ?? "nothing was sent";
  const tried = (await world.call("POST", `${PATH}/test`)).body;
  const said = JSON.stringify([await world.state(), tried, world.log]);
  expect(tried.error.message).toContain("401");
  for (const form of [value, sent, JSON.stringify(value).slice(1, -1)])
    expect(said).not.toContain(JSON.stringify(form).slice(1, -1));
  expect(said).not.toContain("wrong-");
});

test("a key that no header can carry is told in words", async () => {
  const world = begin();
  await world.call("PUT", "/v1/secrets/TRACKER_KEY", { value: "wrong-key-1\n23" });
  await world.setUp({ secret_name: "TRACKER_KEY" });
  world.add();
  await world.tick();
  const { status, body } = await world.call("POST", `${PATH}/test`);
  expect([status, body.error?.code]).toEqual([200, "denied"]);
  expect(body.error.message).toContain("TRACKER_KEY");
  expect((await world.state()).last_error.message).toBe(body.error.message);
  expect(world.log.join("\n")).not.toContain("wrong-key");
});

test("a tracker that moves while it answers leaves no run between two of them", async () => {
  const world = begin();
  const elsewhere = startFakeTracker();
  await world.setUp();
  const id = world.add();
  const held = Promise.withResolvers<undefined>();
  world.tracker.trouble.after = ({ path }) => (path.endsWith("runs/create") ? held.promise : undefined);
  const ticking = world.tick();
  await until("the run to be made", () => world.tracker.runs.size === 1);
  await world.setUp({ base_url: elsewhere.url });
  held.resolve(undefined);
  await ticking;
  world.step(id, 1, { reward: 7 });
  world.clock.advance(6_000);
  await world.tick();
  expect((await world.state()).runs).toEqual({ pending: 1, failing: 0, given_up: 0 });
  expect(elsewhere.told()).toEqual(["1 reward=7"]);
  expect((await world.job(id)).tracker_run_url).toStartWith(elsewhere.url);
  elsewhere.stop();
});

test("a dead tracker is waited for with growing pauses, and nothing is lost meanwhile", async () => {
  const world = begin();
  await world.setUp();
  const id = world.add();
  await world.tick();
  world.tracker.trouble.before = () => new Response("down", { status: 503 });
  const count = () => world.tracker.requests.length;
  const tries: number[] = [];
  for (let second = 0; second < 60; second++) {
    world.clock.advance(1_000);
    if (second % 10 === 0) world.step(id, second + 1, { reward: second });
    const before = count();
    await world.tick();
    if (count() > before) tries.push(second);
  }
  expect(tries.length).toBeLessThan(6); // 5 s, 10 s, 20 s …
  delete world.tracker.trouble.before;
  world.clock.advance(600_000);
  await world.tick();
  expect(world.tracker.told()).toEqual([0, 10, 20, 30, 40, 50].map((second) => `${second + 1} reward=${second}`));
  expect((await world.state()).last_error).toBeNull();
});

test("a tracker that hangs holds up neither jobs, nor the loop, nor other trackers", async () => {
  const world = begin();
  await world.setUp();
  const held = Promise.withResolvers<undefined>();
  world.tracker.trouble.before = () => held.promise;
  const stuck = world.add();
  const ticking = world.tick();
  await until("the tracker to be asked", () => world.tracker.requests.length === 1);
  const other = await world.call("PUT", PATH, { base_url: world.tracker.url }, { key: world.keyB });
  expect(other.status).toBe(201);
  for (const step of [1, 2]) world.step(stuck, step);
  expect((await world.call("GET", `/v1/training_jobs/${stuck}/metrics`)).body.total_points).toBe(2);
  delete world.tracker.trouble.before;
  const theirs = world.add({ workspaceId: world.workspaceB });
  track(world.ctx);
  await until("the other's run", () =>
    [...world.tracker.runs.values()].some((run) => run.tags["verk.job_id"] === theirs),
  );
  expect([...world.tracker.runs.values()].some((run) => run.tags["verk.job_id"] === stuck)).toBe(false);
  held.resolve(undefined);
  await ticking;
  expect([...world.tracker.runs.values()].some((run) => run.tags["verk.job_id"] === stuck)).toBe(true);
});

import { afterEach, expect, test } from "bun:test";
import { KEY, manyWorlds, onlyRun, PATH, routesOf } from "../../../../test/tracker_kit.ts";

const { begin, endAll } = manyWorlds();
afterEach(endAll);

test("a job becomes a run of MLflow with its parameters, metrics and end", async () => {
  const world = begin();
  await world.setUp();
  const id = world.add({ outputName: "sums-1", hyperparameters: { learning_rate: 1e-5, eos: null }, seed: 7 });
  await world.tick();
  const run = onlyRun(world);
  expect(run).toMatchObject({ name: "sums-1", status: "SCHEDULED", tags: { "verk.job_id": id } });
  expect(run.params).toMatchObject({ learning_rate: "0.00001", seed: "7", "lora.r": "4", method: "sft" });
  expect((await world.job(id)).tracker_run_url).toBe(`${world.tracker.url}/#/experiments/1/runs/${run.id}`);
  world.change(id, { status: "running", startedAt: world.clock.now() });
  world.step(id, 1);
  world.step(id, 2);
  world.clock.advance(3_000);
  await world.tick();
  expect(run.status).toBe("RUNNING");
  expect(world.tracker.told()).toEqual(["1 reward=1", "1 loss=1", "2 reward=2", "2 loss=0.5"]);
  expect(run.metrics[0]?.timestamp).toBe(Date.UTC(2026, 0, 1) + 1);
  world.step(id, 3, { reward: 9 });
  world.change(id, { status: "completed", completedAt: 1_700_000_000_000 });
  world.clock.advance(3_000);
  await world.tick();
  expect([run.status, run.endTime, world.tracker.told().at(-1)]).toEqual(["FINISHED", 1_700_000_000_000, "3 reward=9"]);
  expect((await world.state()).runs).toEqual({ pending: 0, failing: 0, given_up: 0 });
  const before = world.tracker.requests.length;
  world.clock.advance(60_000);
  await world.tick();
  expect(world.tracker.requests.length).toBe(before);
});

test.each([
  ["failed", "FAILED"],
  ["cancelled", "KILLED"],
] as const)("a job that is %s ends as %s", async (status, told) => {
  const world = begin();
  await world.setUp();
  world.add({ status, startedAt: 1, completedAt: 2 });
  await world.tick();
  expect(onlyRun(world).status).toBe(told);
});

test("a long series goes in requests that MLflow takes, in the order of steps", async () => {
  const world = begin();
  await world.setUp();
  const id = world.add();
  const values = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`rewards/f${i}:x/mean`, i]));
  for (let step = 1; step <= 100; step++) world.step(id, step, values);
  await world.tick();
  const run = onlyRun(world);
  expect(run.metrics).toHaveLength(3_000);
  expect(run.metrics[0]?.key).toBe("rewards/f0_x/mean");
  expect(run.metrics.map((metric) => metric.step)).toEqual(run.metrics.map((_, i) => 1 + Math.floor(i / 30)));
});

test("a job that goes back to a checkpoint does not tell its steps twice", async () => {
  const world = begin();
  await world.setUp();
  const id = world.add();
  for (const step of [1, 2, 3]) world.step(id, step, { reward: step });
  await world.tick();
  world.ctx.db.$client.run("DELETE FROM training_metrics WHERE step > 1");
  for (const step of [2, 3, 4]) world.step(id, step, { reward: step + 0.5 });
  world.clock.advance(3_000);
  await world.tick();
  expect(world.tracker.told()).toEqual(["1 reward=1", "2 reward=2", "3 reward=3", "4 reward=4.5"]);
});

test("an experiment that others made is used, and it is asked for once a run", async () => {
  const world = begin();
  world.tracker.experiments.set("sums", "77");
  await world.setUp();
  world.add();
  await world.tick();
  expect(onlyRun(world).experiment).toBe("77");
  expect(routesOf(world.tracker)).toEqual([
    "experiments/get-by-name",
    "runs/search",
    "runs/create",
    "runs/log-batch",
    "runs/update",
  ]);
});

test("a run of W&B has its settings, its lines in order and its exit", async () => {
  const world = begin({ type: "wandb", key: `Basic ${Buffer.from(`api:${KEY}`).toString("base64")}` });
  await world.call("PUT", "/v1/secrets/WANDB_KEY", { value: KEY });
  await world.setUp({ secret_name: "WANDB_KEY" });
  expect((await world.call("POST", `${PATH}/test`)).body).toMatchObject({ ok: true });
  const id = world.add({ hyperparameters: { beta: 0.04 } });
  for (const step of [1, 2]) world.step(id, step, { reward: step });
  let lost = false;
  world.tracker.trouble.after = ({ path }) => {
    if (lost || !path.endsWith("file_stream")) return undefined;
    lost = true;
    return new Response("the answer is lost", { status: 502 });
  };
  await world.tick();
  world.clock.advance(6_000);
  await world.tick();
  world.step(id, 3, { reward: 3 });
  world.change(id, { status: "failed", startedAt: 1, completedAt: 2 });
  world.clock.advance(6_000);
  await world.tick();
  const bucket = world.tracker.buckets.get(id.slice(4));
  expect(bucket?.config).toMatchObject({ beta: { value: "0.04" } });
  expect(bucket?.lines.map((line) => JSON.parse(line))).toMatchObject([1, 2, 3].map((n) => ({ _step: n, reward: n })));
  expect([bucket?.exit, JSON.parse(bucket?.summary ?? "")._step]).toEqual([1, 3]);
  expect((await world.job(id)).tracker_run_url).toBe(`${world.tracker.url}/team/sums/runs/${id.slice(4)}`);
});

test("a run of W&B that says nothing for long shows that it lives", async () => {
  const world = begin({ type: "wandb" });
  await world.setUp({ project: "lab/sums" });
  world.add({ status: "running", startedAt: 1 });
  await world.tick();
  const before = world.tracker.requests.length;
  world.clock.advance(30_000);
  await world.tick();
  expect(world.tracker.requests.length).toBe(before);
  world.clock.advance(31_000);
  await world.tick();
  expect(world.tracker.requests.slice(before).map(({ path }) => path)).toEqual([
    expect.stringMatching(/^\/files\/lab\/sums\/\w+\/file_stream$/),
  ]);
});

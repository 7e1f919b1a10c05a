// tier: all (sweeps of faults)
import { expect, test } from "bun:test";
import { durable } from "../../src/platform/db/db.ts";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { atEveryFailpoint, testApp, until } from "../harness.ts";
import { onlyRun, PATH, tick, trackerWorld } from "../tracker_kit.ts";

const ALL = ["1 reward=1", "1 loss=1", "2 reward=2", "2 loss=0.5"];

/** A finished job of two steps that no tracker has heard of. */
async function finishedJob() {
  const world = trackerWorld();
  await world.setUp();
  const id = world.add();
  for (const step of [1, 2]) world.step(id, step);
  world.change(id, { status: "completed", startedAt: 1, completedAt: 2 });
  await durable(world.ctx.db);
  return world;
}

test("after a crash at any point, MLflow ends with one run and each point once", async () => {
  const crashes = await atEveryFailpoint(async (attempt) => {
    const world = await finishedJob();
    await attempt(async () => {
      await world.tick();
      await durable(world.ctx.db);
    });
    await world.close();
    const after = testApp({ dir: world.dir, clock: world.clock, flags: { "network.allow": ["127.0.0.1"] } });
    for (let i = 0; i < 3; i++) {
      world.clock.advance(700_000);
      await tick(after);
    }
    expect([onlyRun(world).status, world.tracker.told()]).toEqual(["FINISHED", ALL]);
    world.tracker.stop();
    await after.close().then(after.remove);
  });
  expect(crashes).toBeGreaterThan(10);
}, 300_000);

test.each(["runs/create", "runs/log-batch", "runs/update"])(
  "a server that is killed before the answer to %s resumes at its position, once",
  async (route) => {
    const world = await finishedJob();
    await world.close();
    const { promise: never } = Promise.withResolvers<undefined>();
    let hung = 0;
    world.tracker.trouble.after = ({ path, body }) => {
      if (!path.endsWith(route) || hung > 0 || body["params"]) return undefined;
      hung++;
      return never;
    };
    const env = { VERK_NETWORK__ALLOW: "127.0.0.1" };
    const first = await startBinary({ dir: world.dir, env });
    await until("the tracker to be at it", () => hung === 1, 30_000);
    await first.kill("SIGKILL");
    const second = await startBinary({ dir: world.dir, env });
    const { key } = await makeKey(world.dir, "--workspace", "alpha");
    await until(
      "all to be told",
      async () => {
        const answer = await fetch(second.url + PATH, { headers: { authorization: `Bearer ${key}` } });
        return ((await answer.json()) as { runs: { pending: number } }).runs.pending === 0;
      },
      30_000,
    );
    await second.kill("SIGTERM");
    expect([onlyRun(world).status, world.tracker.told()]).toEqual(["FINISHED", ALL]);
    world.tracker.stop();
    world.remove();
  },
  120_000,
);

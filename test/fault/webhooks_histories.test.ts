// tier: all (sweeps of faults)
import { expect, test } from "bun:test";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fakeClock, tempDir } from "../harness.ts";
import { SEED, seedFor, sweep } from "../sweep.ts";
import { judgeSeed, type Observations } from "../webhooks_judge.ts";
import { openRig } from "../webhooks_kit.ts";
import { HOUR, Seed } from "../webhooks_seed.ts";
import { World } from "../webhooks_world.ts";

const HISTORIES = sweep({ quick: 1_000, full: 10_000 });
const SEED_OFFSET = seedFor("webhook histories");
const TOGETHER = 50; // in one world: a crash is everyone's
const START = Date.UTC(2026, 0, 1);
const APART = 1000 * HOUR; // a world ends before the next begins, so that ids go on rising

const DEATHS = ["before_commit", "after_commit", "before_flush", "after_flush"].map((point) => `db.${point}`);
DEATHS.push("http.before_send", "http.after_send");

/** In memory where there is such a place: a flush is awaited thousands of times, and no power is cut here. */
const place = () => (existsSync("/dev/shm") ? mkdtempSync("/dev/shm/verk-test-") : tempDir());

test("P7 P16 P17 72 hours with failures, crashes and restarts: nothing lost, early, late, twice or miscounted", async () => {
  const dir = place();
  const counts = new Map<string, number>();
  const jitters: number[] = [];
  const count = (what: string) => counts.set(what, (counts.get(what) ?? 0) + 1);
  try {
    const empty = join(dir, "empty");
    mkdirSync(empty);
    await openRig({ dir: empty, clock: fakeClock(START), dial: () => Promise.reject(new Error("not used")) }).close();
    for (let first = 0; first < HISTORIES; first += TOGETHER) {
      const its = join(dir, String(first));
      mkdirSync(its);
      copyFileSync(join(empty, "verk.db"), join(its, "verk.db"));
      const startMs = START + (first / TOGETHER) * APART;
      const seeds = Array.from(
        { length: Math.min(TOGETHER, HISTORIES - first) },
        (_, i) => new Seed(SEED_OFFSET + first + i, startMs),
      );
      await live(new World(its, seeds, startMs), { count, jitter: (ratio) => void jitters.push(ratio) });
      rmSync(its, { recursive: true });
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
  const situations = ["succeeded", "failed", "exhausted", "resumed", "exhausted while disabled", "cut off"];
  for (const what of [
    ...situations,
    "all of the schedule",
    "disabled by fifty",
    "disabled by 410",
    "enabled again",
    ...DEATHS,
  ])
    expect(`${what}: ${(counts.get(what) ?? 0) >= HISTORIES / 1_000}`).toBe(`${what}: true`); // or it was not tried
  jitters.sort((a, b) => a - b);
  expect(jitters[0]).toBeLessThan(0.91);
  expect(jitters.at(-1)).toBeGreaterThan(1.09);
  expect(jitters.reduce((sum, each) => sum + each, 0) / jitters.length).toBeCloseTo(1, 2);
}, 600_000);

async function live(world: World, tell: Pick<Observations, "count" | "jitter">) {
  let at = "running";
  try {
    await world.run();
    const rows = await world.rows();
    const seen: Observations = {
      ...tell,
      up: world.up,
      sent: Map.groupBy(world.sent, ({ endpointId }) => endpointId),
      enabled: Map.groupBy(world.enabled, ({ endpointId }) => endpointId),
      deliveries: Map.groupBy(rows.deliveries, ({ endpointId }) => endpointId),
      attempts: Map.groupBy(rows.attempts, ({ deliveryId }) => deliveryId),
      endpoints: new Map(rows.endpoints.map((row) => [row.id, row])),
      happened: new Map(world.happened.map((each) => [each.subject, each])),
      events: Map.groupBy(rows.events, ({ subjectId }) => subjectId),
    };
    for (const seed of world.seeds) {
      at = `seed ${seed.number}`;
      judgeSeed(seed, seen);
    }
    for (const where of world.deaths) tell.count(where);
  } catch (error) {
    const from = world.seeds[0]!.number;
    throw new Error(`VERK_TEST_SEED=${SEED}, seeds from ${from}, ${at}: ${(error as Error).message}`, { cause: error });
  }
}

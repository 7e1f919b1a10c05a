// tier: all (sweeps of faults)
import { expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { durable } from "../../src/platform/db/db.ts";
import { deliver } from "../../src/resources/watching/webhooks/delivery/deliver.ts";
import { fanOut } from "../../src/resources/watching/webhooks/delivery/fan_out.ts";
import { webhookAttempts, webhookDeliveries, webhookEndpoints } from "../../src/resources/watching/webhooks/table.ts";
import { Crash, fakeClock, tempDir } from "../harness.ts";
import { randomFor, SEED, sweep } from "../sweep.ts";
import { addEndpoint, answerOf, dieAt, emitCompleted, fragile, openRig, type Rig } from "../webhooks_kit.ts";

const KILLS = sweep({ quick: 200, full: 5_000 });
const never = new AbortController().signal;
const random = randomFor("webhook kills");

/** One round of the server: fan out, send, wait for the results, and flush their rows. */
async function round({ ctx }: Rig) {
  await fanOut(ctx);
  await deliver(ctx, never);
  await ctx.state.webhooks.idle();
  await durable(ctx.db);
}

test(`killed repeatedly at any point: every event arrives, no row is lost or doubled, every count is right (seed ${SEED})`, async () => {
  const dir = tempDir();
  const clock = fakeClock();
  const received = new Map<string, number>(); // answers of 200, by event and endpoint
  const committed: string[] = [];
  let kills = 0;
  const dial = fragile(async (url, { headers }) => {
    const status = kills === KILLS || random() < 0.7 ? 200 : 503;
    const what = `${headers!["webhook-id"]} ${new URL(url).hostname}`;
    if (status === 200) received.set(what, (received.get(what) ?? 0) + 1);
    return answerOf(status);
  });
  const hosts = ["whk-a.example", "whk-b.example", "whk-c.example"];
  let rig = openRig({ dir, clock, dial });
  for (const host of hosts) addEndpoint(rig.ctx, { id: host.slice(0, 5).replace("-", "_"), url: `https://${host}/` });
  await durable(rig.ctx.db);
  const points = new Map<string, number>();
  while (kills < KILLS) {
    const death = dieAt(1 + Math.floor(random() * 14));
    try {
      const event = emitCompleted(rig.ctx);
      await durable(rig.ctx.db);
      committed.push(event); // from here on it must never be lost
      for (let i = 0; i < 3; i++, clock.advance(6_000)) await round(rig);
    } catch (error) {
      if (!death.isDead()) throw error;
      const name = error instanceof Crash ? error.message : String((error as Error).cause ?? error);
      points.set(name, (points.get(name) ?? 0) + 1);
    }
    if (!death.isDead()) {
      death.revive();
      continue;
    }
    kills++;
    await rig.close();
    death.revive();
    clock.advance(1);
    rig = openRig({ dir, clock, dial });
  }
  for (let i = 0; i < 1_000; i++, clock.advance(60_000)) await round(rig); // all is well from here on
  check(rig, committed, { hosts, received });
  expect(points.size).toBeGreaterThan(2);
  await rig.close();
  rmSync(dir, { recursive: true, force: true });
}, 600_000);

type Outside = { hosts: readonly string[]; received: ReadonlyMap<string, number> };

function check({ ctx: { db } }: Rig, committed: readonly string[], { hosts, received }: Outside) {
  const deliveries = db.select().from(webhookDeliveries).all();
  const pairs = new Set(
    deliveries.map(({ eventId, endpointId }) => `${eventId} ${endpointId.replace("_", "-")}.example`),
  );
  expect(pairs.size).toBe(deliveries.length);
  for (const event of committed) for (const host of hosts) expect(pairs).toContain(`${event} ${host}`);
  const attempts = Map.groupBy(db.select().from(webhookAttempts).all(), ({ deliveryId }) => deliveryId);
  for (const row of deliveries) {
    const mine = attempts.get(row.id) ?? [];
    expect(mine.map(({ number }) => number).sort((a, b) => a - b)).toEqual(mine.map((_, i) => i + 1));
    expect(row.attemptCount).toBe(mine.length);
    expect(row.status).toBe("succeeded");
    expect(mine.filter(({ responseCode }) => responseCode === 200)).toHaveLength(1); // no attempt after it
    expect(received.get(`${row.eventId} ${row.endpointId.replace("_", "-")}.example`) ?? 0).toBeGreaterThan(0);
  }
  expect(db.$client.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
  for (const { consecutiveFailures } of db.select().from(webhookEndpoints).all()) expect(consecutiveFailures).toBe(0);
}

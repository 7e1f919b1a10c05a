import { expect, test } from "bun:test";
import { rmSync } from "node:fs";
import type { AttemptRow, DeliveryRow } from "../../src/resources/webhooks/table.ts";
import { tempDir } from "../harness.ts";
import { HOUR, SECOND, World } from "../webhooks_world.ts";

/** Each takes 72 hours and more of its own time. What happened is checked against the specification's words. */
const HISTORIES = Number(process.env["VERK_TEST_WEBHOOK_HISTORIES"] ?? 150);
const WAITS = [5, 60, 600, 3600, 21_600, 43_200].map((seconds) => seconds * SECOND);
type Rows = ReturnType<World["rows"]>;

const isSuccess = ({ responseCode }: AttemptRow) => responseCode !== null && responseCode >= 200 && responseCode < 300;
const endOf = ({ attemptedAt, durationMs }: AttemptRow) => attemptedAt + durationMs;

/** [earliest, latest] of the attempt after `last`, the `made`-th; without what a receiver asked for, which can double it. */
function allowed(row: DeliveryRow, last: AttemptRow | undefined, made: number): [number, number] {
  if (!last) return [row.eventCreatedAt, row.eventCreatedAt];
  const wait = WAITS[Math.min(made, WAITS.length) - 1]!;
  const spread = made === 1 ? 0 : wait / 10 + 1;
  return [endOf(last) + wait - spread, endOf(last) + (last.responseCode === 503 ? 2 * wait : wait + spread)];
}

function checkDelivery(row: DeliveryRow, attempts: readonly AttemptRow[], world: World) {
  expect(row.dueAt).toBeNull();
  expect(row.status).not.toBe("pending");
  expect(attempts.map(({ number }) => number)).toEqual(attempts.map((_, i) => i + 1));
  expect([row.attemptCount, row.scheduledCount]).toEqual([attempts.length, attempts.length]);
  expect(attempts.findIndex(isSuccess)).toBe(row.status === "succeeded" ? attempts.length - 1 : -1);
  for (const [i, each] of attempts.entries()) {
    const [earliest, latest] = allowed(row, attempts[i - 1], i);
    const up = Math.max(0, ...world.restarts.filter((at) => at <= each.attemptedAt));
    expect(each.attemptedAt).toBeGreaterThanOrEqual(Math.floor(earliest) - SECOND);
    expect(each.attemptedAt).toBeLessThanOrEqual(Math.max(latest, up) + SECOND);
    expect(each.attemptedAt).toBeLessThan(row.eventCreatedAt + 72 * HOUR);
  }
  const mine = world.sent.filter((each) => each.eventId === row.eventId && each.endpointId === row.endpointId);
  expect(mine.length).toBeGreaterThanOrEqual(attempts.length);
  expect(new Set(mine.map(({ body }) => body)).size).toBeLessThanOrEqual(1);
  for (const { body } of mine) expect(JSON.parse(body)).toMatchObject({ id: row.eventId, type: "job.completed" });
}

function checkEndpoint({ id, status, consecutiveFailures, disabledAt }: Rows["endpoints"][number], rows: Rows) {
  const mine = new Set(rows.deliveries.filter(({ endpointId }) => endpointId === id).map((row) => row.id));
  const ends = rows.attempts.filter(({ deliveryId }) => mine.has(deliveryId)).sort((a, b) => endOf(a) - endOf(b));
  const failures = ends.length - 1 - ends.findLastIndex(isSuccess);
  const gone = ends.some(({ responseCode }) => responseCode === 410);
  if (new Set(ends.map(endOf)).size === ends.length) expect(consecutiveFailures).toBe(failures); // else: in an order we cannot see
  expect(status).toBe(gone || consecutiveFailures >= 50 ? "disabled" : "enabled");
  expect(disabledAt === null).toBe(status === "enabled");
}

test("72 hours with failures, crashes and restarts: nothing lost, early, late, twice or miscounted", async () => {
  const seen = new Map<string, number>();
  const count = (what: string) => seen.set(what, (seen.get(what) ?? 0) + 1);
  for (let seed = 0; seed < HISTORIES; seed++) {
    const dir = tempDir();
    const world = new World(dir, seed);
    try {
      await world.run((rows) => {
        const made = rows.deliveries.map((row) => `${row.eventId} ${row.endpointId}`).sort();
        const missed = rows.endpoints.some(({ status }) => status === "disabled");
        const wanted = world.events
          .flatMap((event) => world.endpoints.map((endpoint) => `${event} ${endpoint}`))
          .sort();
        if (missed)
          expect(wanted).toEqual(expect.arrayContaining(made)); // what happened after that is not for it
        else expect(made).toEqual(wanted);
        expect(new Set(made).size).toBe(made.length);
        for (const row of rows.deliveries) {
          const attempts = rows.attempts.filter(({ deliveryId }) => deliveryId === row.id);
          checkDelivery(row, attempts, world);
          count(row.status);
          if (attempts.length >= 11) count("all of the schedule");
        }
        for (const endpoint of rows.endpoints) checkEndpoint(endpoint, rows);
        if (world.restarts.length > 1) count("restarted");
      });
    } catch (error) {
      throw new Error(`History ${seed}: ${(error as Error).message}`, { cause: error });
    }
    rmSync(dir, { recursive: true, force: true });
  }
  for (const what of ["succeeded", "exhausted", "all of the schedule", "restarted"])
    expect(`${what}: ${seen.get(what) ?? 0}`).not.toBe(`${what}: 0`); // or it was not tried
}, 600_000);

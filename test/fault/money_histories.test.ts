// tier: all (sweeps of faults)
import { expect, setDefaultTimeout, test } from "bun:test";
import { rmSync } from "node:fs";
import * as billing from "../../src/resources/money/billing/service.ts";
import { type EntryRow, ledgerEntries } from "../../src/resources/money/billing/table.ts";
import { deployments } from "../../src/resources/serving/deployments/table.ts";
import { trainingJobs } from "../../src/resources/training/training_jobs/table.ts";
import { tempDir } from "../harness.ts";
import { INITIAL_MICROS, World } from "../money_world.ts";
import { SEED, seedFor, sweep } from "../sweep.ts";

const HISTORIES = sweep({ quick: 3, full: 20 });
const FIRST = seedFor("money histories");
const DEEDS = 100;
setDefaultTimeout(HISTORIES * 30_000);
const HOUR_MS = 3_600_000n;

const sum = (entries: readonly EntryRow[]) => entries.reduce((total, each) => total + each.amountMicros, 0);

/** Each figure from three sides: what the test saw used, the ledger, the rows. */
function check(world: World) {
  const { db } = world.ctx;
  const entries = db.select().from(ledgerEntries).all();
  const jobs = new Map(
    db
      .select()
      .from(trainingJobs)
      .all()
      .map((row) => [row.id, [row.costMicros, row.runMs] as const]),
  );
  for (const row of db.select().from(deployments).all()) jobs.set(row.id, [row.totalCostMicros, row.uptimeMs]);
  const charged = new Map<string, bigint>();
  for (const seen of world.all) {
    const own = entries.filter(({ subjectId }) => subjectId === seen.id);
    const owed = seen.owed / HOUR_MS;
    expect(BigInt(0 - sum(own))).toBe(owed);
    expect(jobs.get(seen.id)).toEqual([Number(owed), seen.usedMs]);
    const booked = own.reduce((all, { usageMs, rateMicros }) => all + BigInt(usageMs!) * BigInt(rateMicros!), 0n);
    expect(booked).toBe(seen.owed);
    charged.set(seen.workspaceId, (charged.get(seen.workspaceId) ?? 0n) + owed);
  }
  for (const [workspaceId, granted] of world.granted) {
    const own = entries.filter((each) => each.workspaceId === workspaceId);
    const balance = BigInt(INITIAL_MICROS) + granted - (charged.get(workspaceId) ?? 0n);
    expect(BigInt(sum(own))).toBe(balance);
    expect(BigInt(billing.balanceMicros(world.ctx, workspaceId))).toBe(balance);
    expect(own.filter(({ kind }) => kind === "initial")).toHaveLength(1);
  }
  return entries;
}

test("for all histories of jobs, deployments, credit and the server: balance = ledger = use times price", async () => {
  const totals = { entries: 0, crashes: 0, jobs: 0, deployments: 0, paused: 0 };
  for (let seed = FIRST; seed < FIRST + HISTORIES; seed++) {
    const dir = tempDir();
    const world = new World(dir, seed);
    try {
      for (let i = 0; i < DEEDS; i++) {
        await world.go();
        check(world);
      }
      const entries = check(world);
      expect(world.lostMs).toBeLessThan(80_000); // a minute, and a round of this world's loops
      totals.entries += entries.length;
      totals.crashes += world.crashes;
      for (const { subjectKind } of entries) if (subjectKind && subjectKind !== "machine") totals[`${subjectKind}s`]++;
      const { n } = world.ctx.db.$client
        .query("SELECT count(*) AS n FROM training_events WHERE message LIKE '%out of credit%'")
        .get() as { n: number };
      totals.paused += n;
    } catch (error) {
      throw new Error(`VERK_TEST_SEED=${SEED}, history ${seed}`, { cause: error });
    } finally {
      world.close();
      rmSync(dir, { recursive: true, force: true });
    }
  }
  for (const seen of Object.values(totals)) expect(seen).toBeGreaterThan(HISTORIES / 4); // it was not a quiet life
});

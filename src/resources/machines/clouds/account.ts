/**
 * The minutes of a machine. It is charged each minute and at its end, from the moment when `up` has printed its address.
 * Jobs and deployments in its region have a cost of their own in their records, but their time is not charged again.
 */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { endRun, runTime } from "../../money/billing/run_time.ts";
import * as billing from "../../money/billing/service.ts";
import { type MachineRow, machines } from "./table.ts";

export const current = (db: Pick<Tx, "select">, id: string): MachineRow | undefined =>
  db.select().from(machines).where(eq(machines.id, id)).get();

/** Charges the time since the last charge in the commit in which the row takes it. `ends`: nothing more is counted. */
export function settle(ctx: Ctx, tx: Tx, row: MachineRow, { ends }: { ends: boolean }) {
  if (row.upSince === null) return;
  const ms = Math.max(0, runTime(ctx, row.id) - row.upSince);
  const now = ctx.clock.now();
  const bill = billing.billFor({
    workspaceId: row.workspaceId,
    keyId: row.apiKeyId,
    until: now,
    kind: "machine",
    id: row.id,
    label: `Machine ${row.name}`,
    usedMs: row.uptimeMs,
    ms,
    ratePerHourMicros: row.rateMicros,
    count: 1,
    remainder: row.costRemainder,
  });
  tx.update(machines)
    .set({
      upSince: ends ? null : row.upSince + ms,
      uptimeMs: row.uptimeMs + ms,
      costMicros: row.costMicros + bill.micros,
      costRemainder: bill.remainder,
    })
    .where(eq(machines.id, row.id))
    .run();
  billing.charge(tx, bill, now);
  if (ends) endRun(ctx, tx, row.id);
}

/** Charges each full minute, so that a crash delays less than a minute. */
export function keepAccount(ctx: Ctx, row: MachineRow) {
  if (row.upSince === null || runTime(ctx, row.id) - row.upSince < MINUTE_MS) return;
  write(ctx.db, (tx) => {
    const fresh = current(tx, row.id);
    if (fresh) settle(ctx, tx, fresh, { ends: false });
  });
}

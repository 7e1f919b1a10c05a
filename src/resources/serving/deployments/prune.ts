/** Removes the rows of deployments that ended long ago. Their charges stay in the ledger. */
import { and, inArray, lt, notExists, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { ENDED } from "../../../lib/deployment_status.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { traces } from "../../watching/traces/table.ts";
import { pruneRequests } from "./chat/records.ts";
import { deploymentRequests, deployments } from "./table.ts";
import { pruneTraffic } from "./traffic/record.ts";

export async function prune(ctx: Ctx) {
  const { request_retention_days: requests, retention_days: rows } = ctx.config.serving;
  const now = ctx.clock.now();
  await pruneRequests(ctx, now - requests * DAY_MS);
  await pruneTraffic(ctx, now - requests * DAY_MS);
  await pruneEnded(ctx, now - rows * DAY_MS);
}

/** A deployment stays as long as one of its requests or traces is recorded: it says how long the traces stay. */
const pruneEnded = (ctx: Ctx, before: number): Promise<number> =>
  gradually(ctx.db, (tx, rows) => {
    const { id, status, updatedAt } = deployments;
    const recorded = tx
      .select({ one: sql`1` })
      .from(deploymentRequests)
      .where(sql`${deploymentRequests.deploymentId} = ${id}`);
    const traced = tx.select({ one: sql`1` }).from(traces).where(sql`${traces.deploymentId} = ${id}`);
    const old = tx
      .select({ id })
      .from(deployments)
      .where(and(inArray(status, ENDED), lt(updatedAt, before), notExists(recorded), notExists(traced)))
      .limit(rows);
    return tx.delete(deployments).where(sql`${id} IN ${old}`).returning({ id }).all().length;
  });

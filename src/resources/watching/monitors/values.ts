/** The values of a monitor over time, for its curve. One of each minute is kept, so a monitor has a bounded size. */
import { and, asc, avg, count, eq, gte, lt, lte, max, min, sql } from "drizzle-orm";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { DateTime, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { DAY_MS, MINUTE_MS } from "../../../lib/units.ts";
import type { Tx } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { SEVERITIES, type Severity } from "./policy.ts";
import { mustGet } from "./service.ts";
import { type MonitorRow, monitorValues } from "./table.ts";

/** Older values are removed: at most 20,160 of a monitor are kept. */
export const VALUE_DAYS = 14;
const MAX_POINTS = 1_000;

const Time = z.iso.datetime({ offset: true });
export const ValuesQuery = z.object({
  since: Time.optional().describe(`Default: one day before until. Values are kept for ${VALUE_DAYS} days`),
  until: Time.optional().describe("Default: now"),
  max_points: z.coerce
    .number()
    .int()
    .min(1)
    .max(MAX_POINTS)
    .default(300)
    .describe("If there are more values, neighbours become one point"),
});
type ValuesQuery = z.output<typeof ValuesQuery>;

export const MonitorValues = later(() =>
  z
    .object({
      object: z.literal("monitor.values"),
      monitor_id: z.string(),
      since: DateTime,
      until: DateTime,
      data: z
        .array(
          z.object({
            at: DateTime,
            value: z.number().nullable().describe("The mean of the values of this point; null without data"),
            low: z.number().nullable(),
            high: z.number().nullable(),
            severity: z.enum(SEVERITIES).describe("The worst one of this point"),
          }),
        )
        .describe("Oldest first"),
    })
    .meta({ id: "MonitorValues" }),
);
export type MonitorValues = z.infer<typeof MonitorValues>;

/** Runs in the transaction of the evaluation. The last value of a minute counts. */
export function recordValue(tx: Tx, { id, value, samples, severity, evaluatedAt }: MonitorRow) {
  const at = evaluatedAt ?? 0;
  const set = { at, value, samples, severity };
  tx.insert(monitorValues)
    .values({ monitorId: id, minute: Math.floor(at / MINUTE_MS), ...set })
    .onConflictDoUpdate({ target: [monitorValues.monitorId, monitorValues.minute], set })
    .run();
}

/** From good to bad. No data says less than a warning. */
const RANKED: readonly Severity[] = ["ok", "no_data", "warning", "alert"];
const { minute, at, value, severity } = monitorValues;
const rank = sql<number>`max(CASE ${severity} WHEN 'alert' THEN 3 WHEN 'warning' THEN 2 WHEN 'no_data' THEN 1 ELSE 0 END)`;

export function valuesOf(ctx: Ctx, workspaceId: string, id: string, query: ValuesQuery): MonitorValues {
  mustGet(ctx, workspaceId, id);
  const until = query.until === undefined ? ctx.clock.now() : Date.parse(query.until);
  const since = query.since === undefined ? until - DAY_MS : Date.parse(query.since);
  if (since > until) throw new AppError("schema", "since: must not be after until", { param: "since" });
  const within = and(
    eq(monitorValues.monitorId, id),
    gte(minute, Math.floor(since / MINUTE_MS)),
    gte(at, since),
    lte(at, until),
  );
  const all = ctx.db.select({ rows: count() }).from(monitorValues).where(within).get()?.rows ?? 0;
  // A span of this many minutes has at most `max_points` groups, whatever their first minute is.
  const minutes = Math.ceil((until - since) / MINUTE_MS) + 1;
  const perPoint = all <= query.max_points ? 1 : Math.ceil(minutes / Math.max(1, query.max_points - 1));
  const rows = ctx.db
    .select({ at: max(at), value: avg(value).mapWith(Number), low: min(value), high: max(value), rank })
    .from(monitorValues)
    .where(within)
    .groupBy(sql`${minute} / ${perPoint}`)
    .orderBy(asc(max(at)))
    .limit(query.max_points)
    .all();
  return {
    object: "monitor.values",
    monitor_id: id,
    since: isoTime(since),
    until: isoTime(until),
    data: rows.map((row) => ({
      at: isoTime(row.at ?? 0),
      value: row.low === null ? null : row.value,
      low: row.low,
      high: row.high,
      severity: RANKED[row.rank] ?? "ok",
    })),
  };
}

export const pruneValues = (ctx: Ctx): Promise<number> => {
  const before = Math.floor((ctx.clock.now() - VALUE_DAYS * DAY_MS) / MINUTE_MS);
  return gradually(ctx.db, (tx, rows) => {
    const old = tx
      .select({ monitorId: monitorValues.monitorId, minute })
      .from(monitorValues)
      .where(lt(minute, before))
      .limit(rows);
    return tx
      .delete(monitorValues)
      .where(sql`(${monitorValues.monitorId}, ${minute}) IN ${old}`)
      .returning({ minute })
      .all().length;
  });
};

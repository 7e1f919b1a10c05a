/** Evaluates monitors. The new severity, its history and its event are one commit, so a kill repeats or loses nothing. */
import { asc, eq, gt, isNull, lt, lte, or, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { newId } from "../../../lib/ids.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { DAY_MS, SECOND_MS } from "../../../lib/units.ts";
import { durable, prepared, type Tx, write } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { preparedInsert } from "../../../platform/db/row.ts";
import { measure, prepareDevices } from "./measure.ts";
import { type Change, type Judgement, judge, levelOf, type Measurement } from "./policy.ts";
import { type MonitorTest, report } from "./schema.ts";
import { mustGet } from "./service.ts";
import { type MonitorRow, monitorChanges, monitors } from "./table.ts";
import { pruneValues, recordValue } from "./values.ts";

const BATCH = 100; // of one durable commit

const insertChange = preparedInsert(monitorChanges);

/** The loop: every monitor whose last evaluation is older than `monitors.interval_seconds`. */
export async function evaluateDue(ctx: Ctx, signal: AbortSignal): Promise<void> {
  const began = ctx.clock.now();
  const turn = takingTurns(); // a long window of a busy deployment takes tens of milliseconds
  for (let hasMore = true; hasMore && !signal.aborted; ) {
    const rows = due(ctx, began);
    hasMore = rows.length === BATCH;
    await prepareDevices(ctx, rows);
    for (const { id } of rows) {
      if (signal.aborted) break;
      evaluate(ctx, id);
      await turn();
    }
    await durable(ctx.db);
  }
}

/** A time ahead of the clock is due too: the clock was set back. */
const evaluatedOutside = prepared((db) => {
  const { evaluatedAt } = monitors;
  const isBefore = lte(evaluatedAt, sql.placeholder("before"));
  const isAhead = gt(evaluatedAt, sql.placeholder("now"));
  return db
    .select()
    .from(monitors)
    .where(or(isNull(evaluatedAt), isBefore, isAhead))
    .orderBy(asc(evaluatedAt))
    .limit(BATCH)
    .prepare();
});

function due(ctx: Ctx, began: number): MonitorRow[] {
  const before = began - ctx.config.monitors.interval_seconds * SECOND_MS;
  return evaluatedOutside(ctx.db).all({ before, now: ctx.clock.now() });
}

/** The row is read again: it may have changed or gone while requests had their turn. */
function evaluate(ctx: Ctx, id: string) {
  const row = ctx.db.select().from(monitors).where(eq(monitors.id, id)).get();
  if (!row) return;
  const measurement = measureSafely(ctx, row);
  const judgement = judgeRow(row, measurement);
  write(ctx.db, (tx) => {
    const after = save(tx, row, measurement, judgement);
    recordValue(tx, after);
    for (const change of judgement.changes) record(tx, after, change);
  });
}

/** A metric that cannot be measured is no data. One broken monitor must not stop the others. */
function measureSafely(ctx: Ctx, row: MonitorRow): Measurement {
  try {
    return measure(ctx, row);
  } catch (error) {
    ctx.log.error("a monitor could not be measured", { monitor: row.id, metric: row.metric, error });
    return { at: ctx.clock.now(), value: null, samples: 0 };
  }
}

const judgeRow = (row: MonitorRow, measurement: Measurement): Judgement =>
  judge([measurement], row, { ...row.state, severity: row.severity }, row.mutedUntil ?? undefined);

function save(tx: Tx, row: MonitorRow, measurement: Measurement, { state, changes }: Judgement): MonitorRow {
  const { severity, ...rest } = state;
  const set = {
    severity,
    state: rest,
    value: measurement.value,
    samples: measurement.samples,
    evaluatedAt: measurement.at,
    changedAt: changes.some(({ from, to }) => from !== to) ? measurement.at : row.changedAt,
    mutedUntil: row.mutedUntil !== null && row.mutedUntil <= measurement.at ? null : row.mutedUntil,
  };
  tx.update(monitors).set(set).where(eq(monitors.id, row.id)).run();
  return { ...row, ...set };
}

function record(tx: Tx, row: MonitorRow, { measurement, from, to, muted, event }: Change) {
  const { workspaceId } = row;
  const id = newId("evt", measurement.at);
  const eventType = event === null ? null : (`monitor.${event}` as const);
  if (eventType !== null) emit(tx, eventType, { workspaceId, now: measurement.at, id }, report(row, from));
  insertChange(tx, {
    id,
    monitorId: row.id,
    workspaceId,
    severity: to,
    previousSeverity: from,
    value: measurement.value,
    samples: measurement.samples,
    muted,
    eventType,
    createdAt: measurement.at,
  });
}

/** Evaluates now and changes nothing. */
export async function tryNow(ctx: Ctx, workspaceId: string, id: string): Promise<MonitorTest> {
  await prepareDevices(ctx, [mustGet(ctx, workspaceId, id)]);
  const row = mustGet(ctx, workspaceId, id);
  const measurement = measure(ctx, row);
  const { state, changes } = judgeRow(row, measurement);
  const [change] = changes;
  return {
    object: "monitor.test",
    monitor_id: row.id,
    value: measurement.value,
    samples: measurement.samples,
    level: levelOf(measurement, row, row.state.level),
    severity: state.severity,
    current_severity: row.severity,
    event: change?.event ? `monitor.${change.event}` : null,
  };
}

export async function pruneHistory(ctx: Ctx): Promise<number> {
  const { id, createdAt } = monitorChanges;
  const before = ctx.clock.now() - ctx.config.monitors.history_days * DAY_MS;
  const changes = await gradually(ctx.db, (tx, rows) => {
    const old = tx.select({ id }).from(monitorChanges).where(lt(createdAt, before)).limit(rows);
    return tx.delete(monitorChanges).where(sql`${id} IN ${old}`).returning({ id }).all().length;
  });
  return changes + (await pruneValues(ctx));
}

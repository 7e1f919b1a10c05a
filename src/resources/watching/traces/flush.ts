/**
 * Stores buffered traces. A request only adds to the buffer; the rest happens here, at most 50 ms later. A kill loses
 * what is in the buffer. A trace is in one commit with its text, so half a trace is never stored. A request shows only
 * traces that are on the disk.
 */
import type { Ctx } from "../../../context.ts";
import { nextTurn } from "../../../lib/turns.ts";
import { durable, isClosed, isDirty, write } from "../../../platform/db/db.ts";
import { counter } from "../../../platform/metrics.ts";
import { spaceMeter } from "../../data/storage_usage/service.ts";
import type { NewTrace } from "./new_trace.ts";
import { insertTrace, type NewRow, toRow } from "./store.ts";

export const FLUSH_MS = 50;
const MAX_ROWS = 500; // of one commit
const TURN_MS = 5; // then requests get their turn

export const dropped = counter("verk_traces_dropped_total", "Traces that were not stored", []);

export function scheduleFlush(ctx: Ctx) {
  const state = ctx.state.traces;
  if (state.scheduled) return;
  state.scheduled = true;
  setTimeout(() => void flushSoon(ctx), FLUSH_MS).unref();
}

async function flushSoon(ctx: Ctx) {
  await flushed(ctx);
  ctx.state.traces.scheduled = false;
}

/** Stores everything in turns: before traces are read. */
async function flushed(ctx: Ctx) {
  const { buffer } = ctx.state.traces;
  while (buffer.length > 0 && !isClosed(ctx.db)) {
    flushSome(ctx, performance.now() + TURN_MS);
    if (buffer.length > 0) await nextTurn();
  }
}

/** Stores everything now: for a caller that cannot wait, and at the end of the server. */
export function flush(ctx: Ctx) {
  while (ctx.state.traces.buffer.length > 0 && !isClosed(ctx.db)) flushSome(ctx, Number.POSITIVE_INFINITY);
}

/** For a request that shows traces: what `read` found is on the disk before it is shown. */
export async function settled<T>(ctx: Ctx, read: () => T | Promise<T>): Promise<T> {
  await flushed(ctx);
  const found = await read();
  if (isDirty(ctx.db)) await durable(ctx.db);
  return found;
}

function flushSome(ctx: Ctx, until: number) {
  const state = ctx.state.traces;
  const rows: NewRow[] = [];
  let taken = 0;
  let bytes = 0;
  for (const { trace, createdAt } of state.buffer) {
    if (taken === MAX_ROWS || (taken > 0 && performance.now() > until)) break;
    taken++;
    state.bufferedBytes -= trace.bytes ?? 0;
    bytes += trace.bytes ?? 0;
    const row = safeRow(ctx, trace, createdAt);
    if (row) rows.push(row);
  }
  state.buffer.splice(0, taken);
  try {
    using meter = spaceMeter(ctx);
    meter.take(bytes);
    write(ctx.db, (tx) => {
      for (const row of rows) insertTrace(tx, row);
    });
  } catch (error) {
    for (const { workspaceId } of rows) dropped.add(ctx.db, workspaceId, []);
    ctx.log.error("traces were not stored", { traces: rows.length, error });
  }
}

function safeRow(ctx: Ctx, trace: NewTrace, createdAt: number): NewRow | undefined {
  try {
    return toRow(ctx, trace, createdAt);
  } catch (error) {
    dropped.add(ctx.db, trace.workspaceId, []);
    ctx.log.error("a trace was not stored", { trace: trace.id, error });
    return undefined;
  }
}

/**
 * Stores buffered traces. A request only adds to the buffer; the rest happens here, at most 50 ms later. A kill loses
 * what is in the buffer. A trace is in one commit with its text, so half a trace is never stored. A request shows only
 * traces that are on the disk.
 */
import type { Ctx } from "../../../context.ts";
import { nextTurn } from "../../../lib/turns.ts";
import { isClosed, watchWrites, write } from "../../../platform/db/db.ts";
import { counter } from "../../../platform/metrics.ts";
import { spaceMeter } from "../../data/storage_usage/service.ts";
import type { NewTrace } from "./new_trace.ts";
import { insertTraces, type NewRow, toRow } from "./store.ts";

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
  await flushAll(ctx);
  ctx.state.traces.scheduled = false;
}

/** Stores everything. Workspaces take turns, and requests come between them. */
export async function flushAll(ctx: Ctx) {
  const { buffer } = ctx.state.traces;
  while (buffer.size > 0 && !isClosed(ctx.db))
    for (const workspaceId of buffer.workspaces()) {
      flushSome(ctx, workspaceId, performance.now() + TURN_MS);
      if (buffer.size > 0) await nextTurn();
    }
}

/** Stores those of a workspace now, for a caller that cannot wait. At the end of the server: those of all. */
export function flush(ctx: Ctx, only?: string) {
  for (const workspaceId of only === undefined ? ctx.state.traces.buffer.workspaces() : [only])
    while (mayFlush(ctx, workspaceId)) flushSome(ctx, workspaceId, Number.POSITIVE_INFINITY);
}

const mayFlush = ({ state, db }: Ctx, workspaceId: string) => state.traces.buffer.hasOf(workspaceId) && !isClosed(db);

/**
 * For a request that shows traces of the workspace: what `read` found is on the disk before it is shown. A commit that is
 * lost meanwhile fails the request, also one that closed between two turns of `read`.
 */
export async function settled<T>(ctx: Ctx, workspaceId: string, read: () => T | Promise<T>): Promise<T> {
  const written = watchWrites(ctx.db);
  while (mayFlush(ctx, workspaceId)) {
    flushSome(ctx, workspaceId, performance.now() + TURN_MS);
    if (mayFlush(ctx, workspaceId)) await nextTurn();
  }
  const result = await read();
  await written();
  return result;
}

function flushSome(ctx: Ctx, workspaceId: string, until: number) {
  const rows: NewRow[] = [];
  let bytes = 0;
  let taken = 0;
  for (const { trace, createdAt } of ctx.state.traces.buffer.take(workspaceId)) {
    bytes += trace.bytes ?? 0;
    const row = safeRow(ctx, trace, createdAt);
    if (row) rows.push(row);
    if (++taken === MAX_ROWS || performance.now() > until) break;
  }
  try {
    using meter = spaceMeter(ctx);
    meter.take(bytes);
    write(ctx.db, (tx) => void insertTraces(tx, rows));
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

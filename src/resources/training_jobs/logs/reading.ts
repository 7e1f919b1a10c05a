/** A job's log, read from anywhere in it, while it may still grow. */
import { closeSync, fstatSync, readSync } from "node:fs";
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { newId } from "../../../lib/ids.ts";
import type { SseMessage } from "../../../lib/sse.ts";
import { takingTurns } from "../../../lib/turns.ts";
import * as looseKeys from "../../loose_keys/service.ts";
import * as jobs from "../service.ts";
import { nextChange } from "../state/change_signals.ts";
import { isAtWork, liveOf } from "../state/live.ts";
import { current } from "../state/moves.ts";
import { type JobRow, trainingJobs } from "../table.ts";
import { type LogLine, lastLf, lastSeq, lineAt, openForReading } from "./file.ts";

const CHUNK = 262_144;
const LF = 10;

/** Where the line after `seq` begins: by halves, for lines are in order. */
export function placeAfter(fd: number, size: number, seq: number): number {
  let [low, high] = [0, lastLf(fd, size) + 1];
  while (low < high) {
    const middle = lastLf(fd, Math.floor((low + high) / 2)) + 1; // the beginning of the line there
    const line = lineAt(fd, Math.max(low, middle), size);
    if (!line) return high;
    const next = Math.max(low, middle) + lengthAt(fd, Math.max(low, middle), size);
    if (line.seq <= seq) low = next;
    else if (middle <= low) return low;
    else high = middle;
  }
  return low;
}

function lengthAt(fd: number, start: number, size: number): number {
  const buffer = Buffer.alloc(CHUNK);
  for (let at = start; at < size; at += CHUNK) {
    const read = readSync(fd, buffer, 0, Math.min(CHUNK, size - at), at);
    const end = buffer.subarray(0, read).indexOf(LF);
    if (end >= 0) return at + end + 1 - start;
  }
  return size - start;
}

/** Where the last `count` lines begin. */
export function placeOfTail(fd: number, size: number, count: number): number {
  const end = lastLf(fd, size) + 1;
  return placeAfter(fd, end, lastSeq(fd, end) - count); // lines are numbered without a gap
}

/** Whole lines from `at` on, and where the next begins. */
function* linesFrom(fd: number, at: number): Generator<{ line: LogLine; next: number }> {
  let rest = Buffer.alloc(0);
  let place = at;
  for (;;) {
    const buffer = Buffer.alloc(CHUNK);
    const read = readSync(fd, buffer, 0, CHUNK, place + rest.length);
    if (read === 0) return;
    rest = Buffer.concat([rest, buffer.subarray(0, read)]);
    for (let end = rest.indexOf(LF); end >= 0; end = rest.indexOf(LF)) {
      const line = JSON.parse(rest.toString("utf8", 0, end)) as LogLine;
      rest = rest.subarray(end + 1);
      place += end + 1;
      yield { line, next: place };
    }
  }
}

export type From = { after?: number | undefined; tail?: number | undefined };

/** What is there, then what comes, until the job has ended and everything was told. */
export async function* follow(ctx: Ctx, id: string, from: From, signal: AbortSignal): AsyncGenerator<SseMessage> {
  let fd: number | undefined;
  let at = 0;
  let told: string | undefined;
  try {
    while (!signal.aborted) {
      const job = current(ctx.db, id);
      const over = !job || (jobs.isFinished(job) && !isAtWork(ctx, id));
      if (fd === undefined) {
        fd = openForReading(ctx, id);
        if (fd !== undefined) at = beginning(fd, from);
      }
      if (job && told !== job.status && !over) yield { event: "status", data: statusOf(job) };
      told = job?.status;
      for (const { line, next } of fd === undefined ? [] : linesFrom(fd, at)) {
        if (signal.aborted) return;
        yield { id: String(line.seq), event: "log", data: line };
        at = next;
      }
      if (over) {
        if (job) yield { event: "status", data: statusOf(job) };
        return yield { event: "end", data: { status: job?.status ?? "deleted" } };
      }
      await nextChange(ctx, id, signal);
    }
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

function beginning(fd: number, { after, tail }: From): number {
  const { size } = fstatSync(fd);
  if (after !== undefined) return placeAfter(fd, size, after);
  return tail === undefined ? 0 : placeOfTail(fd, size, tail);
}

const statusOf = ({ status, step, totalSteps }: JobRow) => ({ status, step, total_steps: totalSteps });

async function* textOf(ctx: Ctx, id: string): AsyncGenerator<Uint8Array> {
  const fd = openForReading(ctx, id);
  if (fd === undefined) return;
  const turn = takingTurns();
  const encoder = new TextEncoder();
  try {
    let text = "";
    for (const { line } of linesFrom(fd, 0)) {
      text += `${line.line}\n`;
      if (text.length < CHUNK) continue;
      yield encoder.encode(text);
      text = "";
      await turn();
    }
    if (text !== "") yield encoder.encode(text);
  } finally {
    closeSync(fd);
  }
}

/** The text of a job that has ended, into the storage. Beside the loop; what fails is tried again. */
export async function storeLog(ctx: Ctx, job: JobRow): Promise<void> {
  const { storing } = liveOf(ctx.db);
  if (job.logKey !== null || storing.has(job.id) || isAtWork(ctx, job.id)) return;
  storing.add(job.id);
  try {
    const key = `jobs/${job.id}/${newId("upl", ctx.clock.now())}`;
    await looseKeys.store(ctx, {
      key,
      put: () => ctx.storage.put(key, textOf(ctx, job.id)),
      own: (tx, { bytes }) => {
        const own = tx.update(trainingJobs).set({ logKey: key, logBytes: bytes }).where(eq(trainingJobs.id, job.id));
        if (own.returning().all().length === 0) looseKeys.drop(tx, key, ctx.clock.now()); // deleted meanwhile
      },
    });
  } finally {
    storing.delete(job.id);
  }
}

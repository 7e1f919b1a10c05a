/** Reads a job's log from any line on, while the log may still grow. */
import { closeSync, fstatSync, readSync } from "node:fs";
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { newId } from "../../../lib/ids.ts";
import type { SseMessage } from "../../../lib/net/sse.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { KIB } from "../../../lib/units.ts";
import * as looseKeys from "../../loose_keys/service.ts";
import { currentJob, isFinished } from "../state/rows.ts";
import { type JobRow, trainingJobs } from "../table.ts";
import { type LogLine, lastLf, lastSeq, lineAt, openForReading } from "./file.ts";

const CHUNK = 256 * KIB;
const LF = 10;

/** The offset of the line after `seq`. A binary search, because lines are in order. */
export function offsetAfter(fd: number, size: number, seq: number): number {
  let [low, high] = [0, lastLf(fd, size) + 1];
  while (low < high) {
    const middle = lastLf(fd, Math.floor((low + high) / 2)) + 1; // the beginning of that line
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

/** The offset of the last `count` lines. */
export function offsetOfTail(fd: number, size: number, count: number): number {
  const end = lastLf(fd, size) + 1;
  return offsetAfter(fd, end, lastSeq(fd, end) - count); // numbers have no gaps
}

/** Whole lines from the offset `at` on, each with the offset of the next. */
function* linesFrom(fd: number, at: number): Generator<{ line: LogLine; next: number }> {
  let rest = Buffer.alloc(0);
  let offset = at;
  for (;;) {
    const buffer = Buffer.alloc(CHUNK);
    const read = readSync(fd, buffer, 0, CHUNK, offset + rest.length);
    if (read === 0) return;
    rest = Buffer.concat([rest, buffer.subarray(0, read)]);
    for (let end = rest.indexOf(LF); end >= 0; end = rest.indexOf(LF)) {
      const line = JSON.parse(rest.toString("utf8", 0, end)) as LogLine;
      rest = rest.subarray(end + 1);
      offset += end + 1;
      yield { line, next: offset };
    }
  }
}

export type StartAt = { after?: number | undefined; tail?: number | undefined };

/** Yields existing lines, then new ones, until the job has ended and every line was sent. */
export async function* follow(ctx: Ctx, id: string, from: StartAt, signal: AbortSignal): AsyncGenerator<SseMessage> {
  let fd: number | undefined;
  let at = 0;
  let sentStatus: string | undefined;
  const live = ctx.state.trainingJobs;
  try {
    while (!signal.aborted) {
      const job = currentJob(ctx.db, id);
      const over = !job || (isFinished(job) && !live.isActive(id));
      if (fd === undefined) {
        fd = openForReading(ctx, id);
        if (fd !== undefined) at = startOffset(fd, from);
      }
      if (job && sentStatus !== job.status && !over) yield { event: "status", data: statusOf(job) };
      sentStatus = job?.status;
      for (const { line, next } of fd === undefined ? [] : linesFrom(fd, at)) {
        if (signal.aborted) return;
        yield { id: String(line.seq), event: "log", data: line };
        at = next;
      }
      if (over) {
        if (job) yield { event: "status", data: statusOf(job) };
        return yield { event: "end", data: { status: job?.status ?? "deleted" } };
      }
      await live.changes.next(ctx.clock, id, signal);
    }
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

function startOffset(fd: number, { after, tail }: StartAt): number {
  const { size } = fstatSync(fd);
  if (after !== undefined) return offsetAfter(fd, size, after);
  return tail === undefined ? 0 : offsetOfTail(fd, size, tail);
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

/** Puts the text of a finished job into the storage. The next round of the loop retries a failure. */
export async function storeLog(ctx: Ctx, job: JobRow): Promise<void> {
  const live = ctx.state.trainingJobs;
  if (job.logKey !== null || live.isActive(job.id)) return;
  await live.storingLog(job.id, async () => {
    const key = `jobs/${job.id}/${newId("upl", ctx.clock.now())}`;
    await looseKeys.store(ctx, {
      key,
      put: () => ctx.storage.put(key, textOf(ctx, job.id)),
      own: (tx, { bytes }) => {
        const own = tx.update(trainingJobs).set({ logKey: key, logBytes: bytes }).where(eq(trainingJobs.id, job.id));
        if (own.returning().all().length === 0) looseKeys.drop(tx, key, ctx.clock.now()); // deleted meanwhile
      },
    });
  });
}

/** Reads a job's log from any line on, while the log may still grow. */
import { closeSync, fstatSync, readSync } from "node:fs";
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { newId } from "../../../../lib/ids.ts";
import type { SseMessage } from "../../../../lib/net/sse.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { KIB, MIB } from "../../../../lib/units.ts";
import { type Tx, write } from "../../../../platform/db/db.ts";
import * as looseKeys from "../../../data/loose_keys/service.ts";
import { spaceMeter } from "../../../data/storage_usage/service.ts";
import { currentJob, isFinished } from "../state/rows.ts";
import { type JobRow, trainingJobs } from "../table.ts";
import { type LogLine, lastLf, lastSeq, lineAt, openForReading } from "./file.ts";

const CHUNK = 256 * KIB;
const LF = 10;

/** The offset of the line after `seq`. A binary search, because lines are in order. */
function offsetAfter(fd: number, size: number, seq: number): number {
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

export const STREAMS = ["stdout", "stderr", "all"] as const;
export type Stream = (typeof STREAMS)[number];
const isIn = (stream: Stream, line: LogLine) => stream === "all" || line.stream === stream;

const SEARCHED_BYTES = 8 * MIB;

/**
 * The offset of the last `count` lines of a stream. Lines of one stream are searched for in the last 8 MiB only, so
 * that a reader of a quiet stream does not cost a pass over the whole log.
 */
function offsetOfTail(fd: number, size: number, count: number, stream: Stream): number {
  const end = lastLf(fd, size) + 1;
  const last = lastSeq(fd, end);
  if (count === 0) return end;
  if (stream === "all") return offsetAfter(fd, end, last - count); // numbers have no gaps
  for (let reach = count; ; reach *= 4) {
    const from = offsetAfter(fd, end, last - reach);
    const starts: number[] = [];
    let at = from;
    for (const { line, next } of linesFrom(fd, from)) {
      if (isIn(stream, line)) starts.push(at);
      at = next;
    }
    if (starts.length >= count) return starts.at(-count) ?? end;
    if (from === 0 || end - from >= SEARCHED_BYTES) return starts[0] ?? end;
  }
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

/** `tail`: the number of lines to begin with, or all. `after`: the last line that the reader has; it wins. */
export type Choice = { after?: number | undefined; tail: number | "all"; stream: Stream };

/** Yields existing lines, then new ones, until the job has ended and every line was sent. */
export async function* follow(ctx: Ctx, id: string, choice: Choice, signal: AbortSignal): AsyncGenerator<SseMessage> {
  const turn = takingTurns();
  let fd: number | undefined;
  let at = 0;
  let lastStatus: string | undefined; // that was sent
  const live = ctx.state.trainingJobs;
  try {
    while (!signal.aborted) {
      const job = currentJob(ctx.db, id);
      const over = !job || (isFinished(job) && !live.isActive(id));
      if (fd === undefined) {
        fd = openForReading(ctx, id);
        if (fd !== undefined) at = startOffset(fd, choice);
      }
      if (job && lastStatus !== job.status && !over) {
        yield { event: "status", data: statusOf(job) };
        lastStatus = job.status;
      }
      for (const { line, next } of fd === undefined ? [] : linesFrom(fd, at)) {
        if (signal.aborted) return;
        if (isIn(choice.stream, line)) yield { id: String(line.seq), event: "log", data: line };
        else await turn();
        at = next;
      }
      if (over) {
        if (job && lastStatus !== job.status) yield { event: "status", data: statusOf(job) };
        return yield { event: "end", data: { status: job?.status ?? "deleted" } };
      }
      await live.changes.next(ctx.clock, id, signal);
    }
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

function startOffset(fd: number, { after, tail, stream }: Choice): number {
  const { size } = fstatSync(fd);
  if (after !== undefined) return offsetAfter(fd, size, after);
  return tail === "all" ? 0 : offsetOfTail(fd, size, tail, stream);
}

const statusOf = ({ status, step, totalSteps }: JobRow) => ({ status, step, total_steps: totalSteps });

async function* textOf(ctx: Ctx, id: string, stream: Stream): AsyncGenerator<Uint8Array> {
  const fd = openForReading(ctx, id);
  if (fd === undefined) return;
  const turn = takingTurns();
  const encoder = new TextEncoder();
  try {
    let text = "";
    for (const { line } of linesFrom(fd, 0)) {
      await turn();
      if (!isIn(stream, line)) continue;
      text += line.continues ? line.line : `${line.line}\n`;
      if (text.length < CHUNK) continue;
      yield encoder.encode(text);
      text = "";
    }
    if (text !== "") yield encoder.encode(text);
  } finally {
    closeSync(fd);
  }
}

/**
 * Puts the text of a finished job into the storage: standard output, then standard error. An empty log takes no place
 * there. The next round of the loop retries a failure.
 */
export async function storeLog(ctx: Ctx, job: JobRow): Promise<void> {
  const live = ctx.state.trainingJobs;
  if (job.logBytes !== null || job.logKey !== null || live.isActive(job.id)) return;
  const recordLog = (tx: Tx, logKey: string | null, logBytes: number, logStdoutBytes: number) => {
    const set = { logKey, logBytes, logStdoutBytes };
    return tx.update(trainingJobs).set(set).where(eq(trainingJobs.id, job.id)).returning().all().length > 0;
  };
  if (isEmpty(ctx, job.id)) return void write(ctx.db, (tx) => recordLog(tx, null, 0, 0));
  await live.storingLog(job.id, async () => {
    const key = `logs/${job.id}-${newId("upl", ctx.clock.now())}`; // a folder for each job would cost a block
    let stdoutBytes = 0;
    async function* text() {
      for await (const chunk of textOf(ctx, job.id, "stdout")) {
        stdoutBytes += chunk.byteLength;
        yield chunk;
      }
      yield* textOf(ctx, job.id, "stderr");
    }
    using meter = spaceMeter(ctx);
    await looseKeys.store(ctx, {
      key,
      put: () => ctx.storage.put(key, text(), { meter }),
      own: (tx, { bytes }) => {
        if (!recordLog(tx, key, bytes, stdoutBytes)) looseKeys.drop(tx, key, ctx.clock.now()); // deleted meanwhile
      },
    });
  });
}

function isEmpty(ctx: Ctx, id: string): boolean {
  const fd = openForReading(ctx, id);
  if (fd === undefined) return true;
  try {
    return fstatSync(fd).size === 0;
  } finally {
    closeSync(fd);
  }
}

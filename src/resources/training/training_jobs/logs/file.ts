/**
 * The log of a job: a file of entries {seq, time, stream, line} that only the server appends to. A long line takes several
 * entries: all but the last have `continues`. A kill may tear the last entry; it is cut off before the next append. Lines are not flushed to the disk: a log is not worth the wait. The text
 * goes to the storage when the job has ended.
 */
import { closeSync, fstatSync, ftruncateSync, writeSync } from "node:fs";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { isoTime } from "../../../../lib/time.ts";
import { KIB, MIB } from "../../../../lib/units.ts";
import { readIntoSync } from "../../../../platform/files.ts";
import type { OpenMeter } from "../../../../platform/storage/meter.ts";
import { makeDir, openFile, openToAppend } from "../../../../sandbox/files/trees.ts";
import { spaceMeter } from "../../../data/storage_usage/service.ts";
import { LOG, pathsOf } from "../state/paths.ts";

/** `continues`: the line goes on in the next entry of its stream. */
export type LogLine = { seq: number; time: string; stream: "stdout" | "stderr"; line: string; continues?: true };

export const LINE_BYTES = 16 * KIB;
export const FILE_BYTES = 256 * MIB;
const FULL = "The log is full; later lines are not kept";
const GAP = "Some lines are missing here: the disk had no space for them";
const LF = 10;
const CHUNK = 64 * KIB;

export type JobLog = {
  /** `isOpen`: the last line of `text` goes on with the next text of the stream. */
  add: (stream: LogLine["stream"], text: string, more?: { isOpen: boolean }) => void;
  /** The length of the file. */
  bytes: () => number;
  close: () => void;
};

/** Only one writer for each job. `most`: bytes of the file. `keep`: later bytes are cut off first. */
export function openLog(ctx: Ctx, jobId: string, most = FILE_BYTES, keep = Number.POSITIVE_INFINITY): JobLog {
  const { dir } = pathsOf(ctx, jobId);
  makeDir(dir);
  const fd = openToAppend(dir, LOG);
  if (fstatSync(fd).size > keep) ftruncateSync(fd, keep);
  let size = cutTorn(fd);
  let seq = lastSeq(fd, size);
  let closed = false;
  let hasGap = false;
  const meter = spaceMeter(ctx);

  function put(stream: LogLine["stream"], pieces: readonly Piece[]) {
    const time = isoTime(ctx.clock.now());
    const texts: string[] = [];
    const before = { size, seq };
    for (const piece of hasGap ? [{ line: GAP }, ...pieces] : pieces) {
      if (size >= most) break;
      const encode = (content: Piece) => `${JSON.stringify({ seq: ++seq, time, stream, ...content })}\n`;
      const encoded = encode(piece);
      texts.push(encoded);
      size += Buffer.byteLength(encoded);
      if (size >= most) texts.push(encode({ line: piece.continues ? `\n${FULL}` : FULL })); // nothing comes after this entry
    }
    const bytes = Buffer.from(texts.join(""));
    hasGap = !isTaken(meter, bytes.length);
    if (hasGap) {
      ({ size, seq } = before);
      return;
    }
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
  }
  return {
    add(stream, text, { isOpen } = { isOpen: false }) {
      if (closed) return;
      const pieces = text.replace(/\n$/, "").split("\n").flatMap(piecesOf);
      const last = pieces.at(-1);
      if (isOpen && last) last.continues = true;
      put(stream, pieces);
      ctx.state.trainingJobs.changes.notify(jobId);
    },
    bytes: () => fstatSync(fd).size,
    close() {
      if (!closed) closeSync(fd);
      closed = true;
      meter[Symbol.dispose]();
    },
  };
}

/** False: the disk has no space for a line of a log. */
function isTaken(meter: OpenMeter, bytes: number): boolean {
  try {
    meter.take(bytes);
    return true;
  } catch (error) {
    if (error instanceof AppError) return false;
    throw error;
  }
}

type Piece = Pick<LogLine, "line" | "continues">;

/** A long line in parts of at most `LINE_BYTES`, cut between characters: readers hold one entry at a time. */
function piecesOf(line: string): Piece[] {
  if (line.length * 3 <= LINE_BYTES) return [{ line }];
  const bytes = Buffer.from(line);
  const pieces: Piece[] = [];
  for (let at = 0; at < bytes.length || pieces.length === 0; ) {
    let end = Math.min(at + LINE_BYTES, bytes.length);
    while (end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--; // inside a character
    const piece: Piece = { line: bytes.toString("utf8", at, end) };
    pieces.push(end < bytes.length ? { ...piece, continues: true } : piece);
    at = end;
  }
  return pieces;
}

/** Returns the size of the whole lines. */
function cutTorn(fd: number): number {
  const { size } = fstatSync(fd);
  const end = size === 0 ? 0 : lastLf(fd, size) + 1;
  if (end < size) ftruncateSync(fd, end);
  return end;
}

/** The offset of the last line feed before `end`; -1 if there is none. */
export function lastLf(fd: number, end: number): number {
  const buffer = Buffer.alloc(CHUNK);
  for (let to = end; to > 0; ) {
    const from = Math.max(0, to - CHUNK);
    const read = readIntoSync(fd, buffer.subarray(0, to - from), from);
    const at = buffer.subarray(0, read).lastIndexOf(LF);
    if (at >= 0) return from + at;
    to = from;
  }
  return -1;
}

/** The number of the last line. `size`: bytes of whole lines. */
export function lastSeq(fd: number, size: number): number {
  if (size === 0) return 0;
  const start = lastLf(fd, size - 1) + 1;
  return lineAt(fd, start, size)?.seq ?? 0;
}

/** The line that begins at `start`; undefined if it is torn. */
export function lineAt(fd: number, start: number, size: number): LogLine | undefined {
  let bytes = Buffer.alloc(0);
  for (let at = start; at < size; at += CHUNK) {
    const buffer = Buffer.alloc(Math.min(CHUNK, size - at));
    readIntoSync(fd, buffer, at);
    bytes = Buffer.concat([bytes, buffer]);
    const end = bytes.indexOf(LF);
    if (end >= 0) return JSON.parse(bytes.toString("utf8", 0, end)) as LogLine;
  }
  return undefined;
}

/** Undefined if the job has no log yet. The caller closes the descriptor. */
export const openForReading = (ctx: Ctx, jobId: string): number | undefined =>
  openFile(pathsOf(ctx, jobId).dir, LOG)?.fd;

/**
 * Rows that the data resolver of a job made: `<data>/resolved/<job>/train.db` and `eval.db`. Each is made once, before
 * the job starts, and never changes. Every run and resume of the job therefore reads the same rows.
 */
import { existsSync, mkdirSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { isId } from "../../../../lib/ids.ts";
import { MAP_ROWS } from "../../../../lib/rewards/contract.ts";
import type { Format, Row } from "../../../../lib/rows/format.ts";
import { createLineReader, type LineReader, RowError } from "../../../../lib/rows/lines.ts";
import { renameDurably, tempPath } from "../../../../platform/files.ts";
import { liveRows } from "../../../../platform/rows/live.ts";
import { RowsWriter } from "../../../../platform/rows/writer.ts";
import { openResolver, type Resolver, type ResolverCode, ResolverError } from "../../../../sandbox/reward/resolver.ts";
import { meterOf } from "../../storage_usage/service.ts";
import { discard, mustHold } from "./files.ts";

/** Rows that are sent to the sandbox together. */
const PAGE_ROWS = 2 * MAP_ROWS;
const SHOWN = 5; // rows of a preview

const rootOf = (ctx: Pick<Ctx, "config">) => join(ctx.config.data_dir, "resolved");
const folderOf = (ctx: Pick<Ctx, "config">, jobId: string) => join(rootOf(ctx), jobId);
export type Part = "train" | "eval";
export const resolvedPath = (ctx: Pick<Ctx, "config">, jobId: string, part: Part) =>
  join(folderOf(ctx, jobId), `${part}.db`);

/** Rows that a data resolver made of `rows_in` rows. */
export type ResolvedRows = { rows_in: number; rows: number; bytes: number; sha256: string; format: Format };
/** False after a restore of a backup without the file: the rows must be made again. */
export const hasResolved = (ctx: Pick<Ctx, "config">, jobId: string): boolean =>
  existsSync(resolvedPath(ctx, jobId, "train"));

export type Sample = { before: Row; after: Row[] };
type Work = {
  jobId: string;
  workspaceId: string;
  part: Part;
  code: ResolverCode;
  /** Time for one row. */
  rowMs: number;
  from: { path: string; head_row: number };
  /** Only the first rows, for a preview. */
  limit?: number;
  signal: AbortSignal;
  /** JSON pointer of the code, for errors. */
  param: string;
};

/** Throws an AppError with the row and the line of the code if the resolver fails. */
export async function resolveRows(ctx: Ctx, work: Work): Promise<ResolvedRows & { samples: Sample[] }> {
  const { jobId, workspaceId, part, code, rowMs, signal, param } = work;
  const path = resolvedPath(ctx, jobId, part);
  mkdirSync(folderOf(ctx, jobId), { recursive: true, mode: 0o700 });
  const release = await ctx.state.rewards.processes.acquire({ workspaceId, signal });
  if (!release) throw new AppError("no_capacity", "Too many callers wait for the sandbox: try again");
  const temp = tempPath(folderOf(ctx, jobId));
  try {
    const resolver = await openResolver(ctx.rewards, code, { rowMs, signal });
    const resolved = await mapAll(ctx, work, resolver, temp).finally(resolver.close);
    await renameDurably(temp, path);
    return resolved;
  } catch (error) {
    if (!(error instanceof ResolverError)) throw error;
    throw new AppError("schema", `${param.slice(1)}: ${error.message}`, { param });
  } finally {
    await rm(temp, { force: true });
    release();
  }
}

async function mapAll(ctx: Ctx, { workspaceId, from, limit, signal, param }: Work, resolver: Resolver, temp: string) {
  const held = mustHold(ctx, from.path);
  using meter = meterOf(ctx, { workspaceId, kind: "datasets" }, { param });
  const writer = new RowsWriter(temp, { now: ctx.clock.now(), meter });
  const reader = createLineReader({ maxRowBytes: ctx.config.datasets.max_row_bytes, format: undefined });
  const hasher = new Bun.CryptoHasher("sha256");
  const samples: Sample[] = [];
  let rowsIn = 0;
  try {
    for (let [after, more] = [0, true]; more; ) {
      signal.throwIfAborted();
      const wanted = Math.min(PAGE_ROWS, (limit ?? Number.POSITIVE_INFINITY) - rowsIn);
      const { entries, hasMore } = await liveRows(held.file, after, wanted, from.head_row);
      const texts = entries.map(({ text }) => text ?? "{}");
      const results = await resolver.map(
        texts.map((text) => JSON.parse(text) as Row),
        rowsIn + 1,
      );
      for (const { body } of checked(reader, results, rowsIn)) {
        hasher.update(body);
        writer.add([{ body }]);
      }
      for (let i = 0; i < results.length && samples.length < SHOWN; i++)
        samples.push({ before: JSON.parse(texts[i]!) as Row, after: results[i]!.slice(0, SHOWN) });
      rowsIn += entries.length;
      after = entries.at(-1)?.rowId ?? after;
      more = hasMore && rowsIn < (limit ?? Number.POSITIVE_INFINITY);
    }
    const { rows, format } = reader;
    if (rows === 0 || !format) throw new ResolverError(`the code left out all ${rowsIn} rows`);
    await writer.flush();
    return { rows_in: rowsIn, rows, bytes: writer.bytes, sha256: hasher.digest("hex"), format, samples };
  } finally {
    writer.close();
    held.release();
  }
}

const encoder = new TextEncoder();

/** The rows are checked as those of an upload. A fault is given by the row that it was made of. */
function checked(reader: LineReader, results: readonly Row[][], before: number) {
  const linesBefore = reader.rows;
  const lines = results.flat().map((row) => JSON.stringify(row));
  if (lines.length === 0) return [];
  try {
    return [...reader.push(encoder.encode(`${lines.join("\n")}\n`)), ...reader.end()];
  } catch (error) {
    if (!(error instanceof RowError)) throw error;
    let left = error.line - linesBefore;
    const index = results.findIndex((rows) => {
      left -= rows.length;
      return left <= 0;
    });
    throw new ResolverError(`row ${before + index + 1}: the row that the code returned is wrong: ${error.why}`);
  }
}

export async function removeResolved(ctx: Ctx, jobId: string) {
  for (const part of ["train", "eval"] as const) await discard(ctx, resolvedPath(ctx, jobId, part));
  await rm(folderOf(ctx, jobId), { recursive: true, force: true });
}

/** Removes the rows of jobs that will not run again. */
export async function sweepResolved(ctx: Ctx, mayRun: (jobId: string) => boolean) {
  const ids = (await readdir(rootOf(ctx)).catch(() => [])).filter((id) => isId(id, "job"));
  for (const id of ids) if (!mayRun(id)) await removeResolved(ctx, id);
}

/**
 * Reads an uploaded file into a temporary row file. JSON lines are checked and written as they arrive. Every other kind
 * is stored first, and a child process without a network reads it.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Ctx } from "../../../../context.ts";
import type { FilePart } from "../../../../http/body/multipart.ts";
import { AppError } from "../../../../lib/errors.ts";
import { isJsonLines, LOOKED_AT_BYTES } from "../../../../lib/rows/file_kind.ts";
import type { Format } from "../../../../lib/rows/format.ts";
import { createLineReader, RowError } from "../../../../lib/rows/lines.ts";
import {
  createShaping,
  type Detected,
  describeDetected,
  type ShapeOptions,
  shapeOf,
} from "../../../../lib/rows/shaping.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { writeTemp } from "../../../../platform/files.ts";
import { RowsWriter } from "../../../../platform/rows/writer.ts";
import { fileSize, watchGrowth } from "../../../../platform/storage/growth.ts";
import type { OpenMeter } from "../../../../platform/storage/meter.ts";
import { meterOf, roomOf } from "../../storage_usage/service.ts";
import { partFolder } from "./files.ts";
import { type Imported, type ImportTask, importRows, Unreadable } from "./importer.ts";

export type Options = Omit<ShapeOptions, "cells">;
/** `sha256` is the hash of the file, and of the options if there are any. */
export type RowsUpload = {
  path: string;
  rows: number;
  bytes: number;
  format: Format;
  sha256: string;
  detected: Detected;
};
/** `id` is the id of the new dataset: its folder `.part` holds the temporary files. `meter` counts the rows. */
type Intake = { id: string; workspaceId: string; signal: AbortSignal; options: Options; meter: OpenMeter };

export async function readUpload(ctx: Ctx, part: FilePart, intake: Intake): Promise<RowsUpload> {
  const folder = partFolder(ctx, intake.id);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { head, rest } = await peeked(part.stream);
  const path = join(folder, "rows.db");
  return isJsonLines(head, part.filename)
    ? readLines(ctx, rest, { ...intake, path })
    : importFile(ctx, rest, { ...intake, path, from: join(folder, "upload"), name: part.filename });
}

/** Two different readings of one file are two datasets. */
const hashed = (hasher: Bun.CryptoHasher, { map, shape, format }: Options): string => {
  const isPlain = Object.keys(map).length === 0 && shape === undefined && format === undefined;
  if (!isPlain) hasher.update(JSON.stringify([map, shape ?? null, format ?? null]));
  return hasher.digest("hex");
};

const RESERVED = "_op and _row_id are for appended rows only: use POST /v1/datasets/{id}/rows";

const TURN_BYTES = 65_536; // of short rows: some milliseconds

type Lines = Intake & { path: string };

async function readLines(
  ctx: Ctx,
  chunks: AsyncIterable<Uint8Array>,
  { path, options, meter }: Lines,
): Promise<RowsUpload> {
  const shaping = createShaping({ ...options, cells: false });
  const { first, hint } = shaping;
  const reader = createLineReader({
    maxRowBytes: ctx.config.datasets.max_row_bytes,
    format: options.format,
    first,
    hint,
    visit(row, text, line) {
      if (row["_op"] !== undefined || row["_row_id"] !== undefined) throw new RowError(line, RESERVED);
      return shaping.visit(row, text, line);
    },
  });
  const hasher = new Bun.CryptoHasher("sha256");
  const writer = new RowsWriter(path, { now: ctx.clock.now(), meter });
  try {
    const turn = takingTurns();
    for await (const chunk of chunks) {
      hasher.update(chunk);
      for (let at = 0; at < chunk.length; at += TURN_BYTES) {
        writer.add(reader.push(chunk.subarray(at, at + TURN_BYTES)));
        await turn();
      }
    }
    writer.add(reader.end());
    const { rows, format } = reader;
    if (rows === 0 || !format)
      throw new AppError("schema", "file: has no rows: write one JSON object per line", { param: "file" });
    await writer.flush();
    const detected = describeDetected("jsonl", shapeOf(shaping.shape, format), rows);
    return { path, rows, bytes: writer.bytes, format, sha256: hashed(hasher, options), detected };
  } catch (error) {
    if (!(error instanceof RowError)) throw error;
    const param = error.field === "map" || error.field === "shape" ? error.field : "file";
    throw new AppError("schema", error.message, { param });
  } finally {
    writer.close();
  }
}

type FileImport = Lines & { from: string; name: string };

async function importFile(ctx: Ctx, chunks: AsyncIterable<Uint8Array>, file: FileImport): Promise<RowsUpload> {
  const { id, workspaceId, signal, options, path, from, name, meter } = file;
  using sent = meterOf(ctx, { workspaceId, kind: "datasets" }, { param: "file", onItsWay: "files" });
  const hasher = new Bun.CryptoHasher("sha256");
  await writeTemp(from, chunks, { meter: sent, onChunk: (chunk) => void hasher.update(chunk) });
  const release = await ctx.state.datasets.imports.acquire({ workspaceId, signal });
  if (!release) throw new AppError("no_capacity", "Too many files are being read: try again", { retryAfterSeconds: 5 });
  try {
    const { datasets } = ctx.config;
    const read = await runImporter(
      ctx,
      { folder: partFolder(ctx, id), signal, meter },
      {
        from,
        name: name.slice(0, 200) || "file",
        path,
        row_bytes: datasets.max_row_bytes,
        max_bytes: Math.max(1, Math.min(datasets.max_upload_bytes, roomOf(ctx, { workspaceId, kind: "datasets" }))),
        options,
      },
    );
    const { kind, rows, bytes, format, shape } = read;
    return {
      path,
      rows,
      bytes,
      format,
      sha256: hashed(hasher, options),
      detected: describeDetected(kind, shape, rows),
    };
  } finally {
    release();
  }
}

type Import = { folder: string; signal: AbortSignal; meter: OpenMeter };

async function runImporter(ctx: Ctx, { folder, signal, meter }: Import, task: ImportTask): Promise<Imported> {
  const stop = new AbortController();
  // A packed file may grow a thousandfold.
  using growth = watchGrowth(
    meter,
    () => fileSize(task.path),
    (error) => stop.abort(error),
  );
  try {
    const limits = { writes: [folder], signal: AbortSignal.any([signal, stop.signal]) };
    const imported = await importRows(ctx.supervisor, task, limits);
    growth.check();
    return imported;
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    if (error.kind === "broken") throw new AppError("worker_failed", `${error.message}. Try again`, { param: "file" });
    throw new AppError(error.kind === "too_large" ? "quota_exceeded" : "schema", error.message, { param: "file" });
  }
}

/** Returns the first bytes, and the whole stream from its beginning. */
async function peeked(stream: AsyncIterable<Uint8Array>) {
  const chunks = stream[Symbol.asyncIterator]();
  const parts: Uint8Array[] = [];
  let bytes = 0;
  while (bytes < LOOKED_AT_BYTES) {
    const { done, value } = await chunks.next();
    if (done) break;
    parts.push(value);
    bytes += value.byteLength;
  }
  async function* rest() {
    yield* parts.splice(0);
    yield* { [Symbol.asyncIterator]: () => chunks };
  }
  return { head: Buffer.concat(parts), rest: rest() };
}

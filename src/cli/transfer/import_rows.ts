/** Reads a file of another kind than JSON lines (CSV, TSV, Parquet, a JSON array, also packed) in a confined process. */
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { isJsonLines, LOOKED_AT_BYTES } from "../../lib/rows/file_kind.ts";
import type { ShapeOptions } from "../../lib/rows/shaping.ts";
import { openRows } from "../../platform/rows/file.ts";
import { settingsOf } from "../settings.ts";
import type { Chunk, Source } from "./source.ts";

export type RowsFile = { path: string; source: Source; config: string | undefined; signal: AbortSignal };
export type Rows = { chunks: AsyncIterable<Chunk>; size: number | undefined; unit: "line" | "row" };

/** JSON lines are passed on as they are, unless they must be mapped. A pipe always has JSON lines. */
export async function withRows<T>(
  { path, source, config, signal }: RowsFile,
  options: Omit<ShapeOptions, "cells">,
  use: (rows: Rows) => Promise<T>,
): Promise<T> {
  const isShaped = Object.keys(options.map).length > 0 || options.shape !== undefined;
  if (isShaped && source.size === undefined)
    throw new UsageError("--map and --shape need a file: standard input and pipes take rows that are ready");
  const isReady = !isShaped && (source.size === undefined || isJsonLines(await headOf(source), source.name));
  if (isReady) return await use({ chunks: source.chunks(), size: source.size, unit: "line" });
  const dir = await mkdtemp(join(tmpdir(), "verk-rows-"));
  try {
    const settings = settingsOf({ config, data: dir });
    const { importRows, Unreadable, withWorkers } = await import("../offline.ts");
    const rows = join(dir, "rows.db");
    const task = {
      from: await realpath(path),
      name: source.name,
      path: rows,
      row_bytes: settings.datasets.max_row_bytes,
      max_bytes: Number.MAX_SAFE_INTEGER,
      options,
    };
    const limits = { reads: [task.from], writes: [dir], signal };
    const { bytes } = await withWorkers(settings, (supervisor) => importRows(supervisor, task, limits)).catch(
      (error) => {
        if (!(error instanceof Unreadable)) throw error;
        throw new UsageError(`${source.name}: ${error.message.replace(/`(map|shape)`/g, "--$1")}`, 1);
      },
    );
    return await use({ chunks: stored(rows), size: bytes, unit: "row" });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function headOf({ chunks, size = 0 }: Source): Promise<Uint8Array> {
  return Buffer.concat(await Array.fromAsync(chunks({ from: 0, to: Math.min(size, LOOKED_AT_BYTES) })));
}

async function* stored(path: string): AsyncGenerator<Chunk> {
  const file = openRows(path, "read");
  try {
    for (const { body } of file.blocks(1, file.lastRow())) yield new Uint8Array(body);
  } finally {
    file.close();
  }
}

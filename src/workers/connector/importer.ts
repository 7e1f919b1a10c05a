/** Reads an uploaded file (JSON, CSV, TSV, Parquet, also packed) into a file of rows, in a process without a network. */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { createLineReader, type LineReader, RowError } from "../../lib/rows/lines.ts";
import { createShaping, shapeOf } from "../../lib/rows/shaping.ts";
import { readExactly, UNCOUNTED } from "../../platform/files.ts";
import { RowsWriter } from "../../platform/rows/writer.ts";
import { type Host, runHosted } from "../host.ts";
import { type FromImporter, ToImporter } from "../protocol_importer.ts";
import { BEGINNING, type SourceFile } from "./formats/file.ts";
import { kindOf, rowsOf } from "./formats/rows.ts";
import { memoryRanOut } from "./memory.ts";
import { SourceError } from "./types.ts";

const MEMORY_BYTES = 2 * 2 ** 30;
const CHUNK_BYTES = 1 << 20;
const MAX_MESSAGE = 2000;
const encoder = new TextEncoder();

class TooLarge extends Error {}

export const runImporter = () => runHosted<ToImporter, FromImporter>(ToImporter, serve);

async function serve(host: Host<ToImporter, FromImporter>) {
  for await (const task of host.messages) {
    try {
      const work = importFile(task, host.stopping, () => host.beat());
      host.send(await Promise.race([work, memoryRanOut(MEMORY_BYTES + 8 * task.row_bytes)]));
    } catch (error) {
      if (host.stopping.aborted) return;
      if (!(error instanceof SourceError || error instanceof RowError || error instanceof TooLarge)) throw error;
      host.send({
        type: "refused",
        message: error.message.slice(0, MAX_MESSAGE),
        too_large: error instanceof TooLarge,
      });
    }
    return;
  }
}

async function importFile(task: ToImporter, stopping: AbortSignal, beat: () => void): Promise<FromImporter> {
  const handle = await open(task.from, constants.O_RDONLY);
  const writer = new RowsWriter(task.path, { now: Date.now(), meter: UNCOUNTED });
  try {
    const file = localFile(handle, task.name, (await handle.stat()).size);
    const kind = await kindOf(file);
    const cells = kind === "csv" || kind === "tsv";
    const shaping = createShaping({ ...task.options, cells });
    const { first, hint } = shaping;
    const visit: typeof shaping.visit = (row, text, line) => shaping.visit(row, text, line);
    const reader = createLineReader({ maxRowBytes: task.row_bytes, format: task.options.format, first, hint, visit });
    for await (const { lines } of rowsOf(file, { rowBytes: task.row_bytes, from: BEGINNING })) {
      stopping.throwIfAborted();
      if (lines.length > 0) writer.add(checked(reader, lines));
      if (writer.bytes > task.max_bytes) throw new TooLarge(`its rows take more than ${task.max_bytes} bytes`);
      beat();
    }
    if (reader.rows === 0 || !reader.format) throw new SourceError("invalid_rows", `${task.name} has no rows`);
    await writer.flush();
    const { rows, format } = reader;
    return { type: "imported", kind, rows, bytes: writer.bytes, format, shape: shapeOf(shaping.shape, format) };
  } finally {
    writer.close();
    await handle.close();
  }
}

/** Rows have no line of their own in most kinds of files, so faults are given by row. */
function checked(reader: LineReader, lines: readonly string[]) {
  try {
    return [...reader.push(encoder.encode(`${lines.join("\n")}\n`)), ...reader.end()];
  } catch (error) {
    if (!(error instanceof RowError)) throw error;
    throw new SourceError("invalid_rows", `Row ${error.line}: ${error.why}`);
  }
}

function localFile(handle: FileHandle, name: string, bytes: number): SourceFile {
  const read = (from: number, to: number) => {
    const buffer = new Uint8Array(Math.max(0, Math.min(to, bytes) - from));
    return readExactly(handle, buffer, from, () => new Error("the uploaded file became shorter"));
  };
  async function* stream(from: number) {
    for (let at = from; at < bytes; at += CHUNK_BYTES) yield await read(at, at + CHUNK_BYTES);
  }
  return { name, bytes, read, stream };
}

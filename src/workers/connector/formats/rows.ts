/** Rows of a file in any format. The name and the first bytes decide the format. */
import { delimiterOf, type FileKind, kindByName, textKind } from "../../../lib/rows/file_kind.ts";
import { type Compression, compressionOf, unpacked } from "./compression.ts";
import { csvRows } from "./csv.ts";
import { BEGINNING, badRows, type FormatOptions, type Piece, type SourceFile } from "./file.ts";
import { jsonRows } from "./json.ts";
import { jsonlRows } from "./jsonl.ts";
import { parquetColumns, parquetCount, parquetRows } from "./parquet/reader.ts";

const PARQUET_MAGIC = "PAR1";
const HEAD_BYTES = 4096;

export async function* rowsOf(file: SourceFile, options: FormatOptions): AsyncIterable<Piece> {
  if (file.bytes === 0) return;
  const opened = await open(file, options.from.byte ?? 0);
  if (opened.format === "parquet") return yield* parquetRows(file, options);
  const { source, format, compression, delimiter } = opened;
  if (format === "json") return yield* jsonRows(file, source, options);
  if (format !== "jsonl") return yield* csvRows(file, source, { ...options, delimiter });
  for await (const { lines, place } of jsonlRows(file, source, options))
    yield { lines, place: compression ? { row: place.row, byte: null } : place };
}

const LOOKED_AT_ROWS = 100;

/** For JSON, the names in the first rows. */
export async function columnsOf(file: SourceFile, rowBytes: number): Promise<string[]> {
  if (file.bytes === 0) return [];
  const options = { rowBytes, from: BEGINNING };
  const opened = await open(file, 0);
  if (opened.format === "parquet") return await parquetColumns(file);
  const { source, format, delimiter } = opened;
  let header: string[] = [];
  const onHeader = (names: string[]) => {
    header = names;
  };
  if (format === "csv" || format === "tsv") {
    for await (const _first of csvRows(file, source, { ...options, delimiter, onHeader })) break;
    return header;
  }
  const names = new Set<string>();
  let row = 0;
  const read = format === "json" ? jsonRows : jsonlRows;
  for await (const { lines } of read(file, source, options)) {
    for (const line of lines.slice(0, LOOKED_AT_ROWS - row))
      for (const name of Object.keys(parsed(file, line, ++row))) names.add(name);
    if (row >= LOOKED_AT_ROWS) break;
  }
  return [...names];
}

/** Returns null if only reading the whole file would tell. */
export async function countOf(file: SourceFile): Promise<number | null> {
  if (file.bytes === 0) return 0;
  const named = kindByName(file.name);
  if (named !== undefined && named !== "parquet") return null;
  const isParquet = named === "parquet" || latin1(await file.read(0, Math.min(4, file.bytes))) === PARQUET_MAGIC;
  return isParquet ? await parquetCount(file) : null;
}

function parsed(file: SourceFile, line: string, row: number): object {
  try {
    return JSON.parse(line) as object;
  } catch (cause) {
    throw badRows(file, `row ${row} is not valid JSON: ${(cause as Error).message}`, cause);
  }
}

type Opened = { format: "parquet" } | OpenedText;
type OpenedText = {
  format: Exclude<FileKind, "parquet">;
  delimiter: string;
  source: AsyncIterable<Uint8Array>;
  compression: Compression | undefined;
};

async function open(file: SourceFile, fromByte: number): Promise<Opened> {
  const named = kindByName(file.name);
  if (named === "parquet") return { format: named };
  const packed = await peeked(file.stream(fromByte));
  try {
    if (latin1(packed.head.subarray(0, 4)) === PARQUET_MAGIC && fromByte === 0) {
      await packed.close();
      return { format: "parquet" };
    }
    if (fromByte > 0) return { format: "jsonl", delimiter: "", source: packed.rest, compression: undefined };
    const compression = compressionOf(file, packed.head);
    if (!compression) return { ...textFormat(file, packed.head), source: packed.rest, compression };
    const plain = await peeked(unpacked(file, packed.rest, compression));
    return { ...textFormat(file, plain.head), source: plain.rest, compression };
  } catch (error) {
    await packed.close();
    throw error;
  }
}

/** The kind of a file that is neither packed nor Parquet. */
export async function kindOf(file: SourceFile): Promise<FileKind> {
  if (file.bytes === 0) return "jsonl";
  const opened = await open(file, 0);
  if (opened.format !== "parquet") await opened.source[Symbol.asyncIterator]().return?.();
  return opened.format;
}

function textFormat(file: SourceFile, head: Uint8Array): Pick<OpenedText, "format" | "delimiter"> {
  const format = textKind(head, file.name) ?? kindByName(file.name);
  if (format === undefined || format === "parquet")
    throw badRows(file, "neither its name nor its first bytes tell its format. Name it .jsonl, .csv or .parquet");
  return { format, delimiter: format === "csv" || format === "tsv" ? delimiterOf(format, head) : "" };
}

const latin1 = (bytes: Uint8Array) => new TextDecoder("latin1").decode(bytes);

/** Returns the first bytes, and the whole stream from its beginning. Read `rest` or call `close`. */
async function peeked(source: AsyncIterable<Uint8Array>) {
  const iterator = source[Symbol.asyncIterator]();
  const parts: Uint8Array[] = [];
  let bytes = 0;
  while (bytes < HEAD_BYTES) {
    const { done, value } = await iterator.next();
    if (done) break;
    parts.push(value);
    bytes += value.byteLength;
  }
  async function* rest() {
    try {
      for (const part of parts.splice(0)) yield part;
      for (;;) {
        const { done, value } = await iterator.next();
        if (done) return;
        yield value;
      }
    } finally {
      await iterator.return?.();
    }
  }
  return { head: Buffer.concat(parts), rest: rest(), close: async () => void (await iterator.return?.()) };
}

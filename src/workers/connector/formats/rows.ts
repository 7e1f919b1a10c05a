/** Rows of a file in any format. The name decides the format, otherwise the first bytes. */
import { type Compression, compressionOf, unpacked } from "./compression.ts";
import { csvRows } from "./csv.ts";
import { BEGINNING, badRows, type FormatOptions, type Piece, type SourceFile } from "./file.ts";
import { jsonlRows } from "./jsonl.ts";
import { parquetColumns, parquetCount, parquetRows } from "./parquet/reader.ts";

export type Format = "jsonl" | "csv" | "tsv" | "parquet";

const EXTENSIONS: Record<string, Format> = {
  jsonl: "jsonl",
  ndjson: "jsonl",
  json: "jsonl",
  csv: "csv",
  tsv: "tsv",
  parquet: "parquet",
  pq: "parquet",
};

/** Returns the format of the file name, without a compression suffix. */
export function formatByName(name: string): Format | undefined {
  const plain = name.toLowerCase().replace(/\.(gz|gzip|zst|zstd)$/, "");
  return EXTENSIONS[/\.([a-z]+)$/.exec(plain)?.[1] ?? ""];
}

const PARQUET_MAGIC = "PAR1";
const HEAD_BYTES = 1024;

export async function* rowsOf(file: SourceFile, options: FormatOptions): AsyncIterable<Piece> {
  if (file.bytes === 0) return;
  const opened = await open(file, options.from.byte ?? 0);
  if (opened.format === "parquet") return yield* parquetRows(file, options);
  const { source, format, compression } = opened;
  if (format !== "jsonl") return yield* csvRows(file, source, { ...options, delimiter: format === "tsv" ? "\t" : "," });
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
  const { source, format } = opened;
  let header: string[] = [];
  const onHeader = (names: string[]) => {
    header = names;
  };
  if (format !== "jsonl") {
    const delimiter = format === "tsv" ? "\t" : ",";
    for await (const _first of csvRows(file, source, { ...options, delimiter, onHeader })) break;
    return header;
  }
  const names = new Set<string>();
  let row = 0;
  for await (const { lines } of jsonlRows(file, source, options)) {
    for (const line of lines.slice(0, LOOKED_AT_ROWS - row))
      for (const name of Object.keys(parsed(file, line, ++row))) names.add(name);
    if (row >= LOOKED_AT_ROWS) break;
  }
  return [...names];
}

/** Returns null if only reading the whole file would tell. */
export async function countOf(file: SourceFile): Promise<number | null> {
  if (file.bytes === 0) return 0;
  const named = formatByName(file.name);
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

type Opened =
  | { format: "parquet" }
  | { format: "jsonl" | "csv" | "tsv"; source: AsyncIterable<Uint8Array>; compression: Compression | undefined };

async function open(file: SourceFile, fromByte: number): Promise<Opened> {
  const named = formatByName(file.name);
  if (named === "parquet") return { format: named };
  const packed = await peeked(file.stream(fromByte));
  try {
    if (latin1(packed.head.subarray(0, 4)) === PARQUET_MAGIC && fromByte === 0) {
      await packed.close();
      return { format: "parquet" };
    }
    const compression = fromByte === 0 ? compressionOf(file, packed.head) : undefined;
    if (!compression) return { format: named ?? byContent(file, packed.head), source: packed.rest, compression };
    if (named) return { format: named, source: unpacked(file, packed.rest, compression), compression };
    const plain = await peeked(unpacked(file, packed.rest, compression));
    return { format: byContent(file, plain.head), source: plain.rest, compression };
  } catch (error) {
    await packed.close();
    throw error;
  }
}

function byContent(file: SourceFile, head: Uint8Array): "jsonl" {
  const first = new TextDecoder().decode(head).trimStart()[0];
  // the reader explains what is wrong with a list
  if (first === undefined || first === "{" || first === "[") return "jsonl";
  throw badRows(file, "neither its name nor its first bytes tell its format. Name it .jsonl, .csv or .parquet");
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

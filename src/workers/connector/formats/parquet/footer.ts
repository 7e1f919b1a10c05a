/** Reads a Parquet footer without trust: every size is compared with the file before memory is allocated for it. */
import type { FileMetaData } from "hyparquet";
import { parquetMetadata } from "hyparquet";
import type { SourceFile } from "../file.ts";
import { type Node, schemaOf } from "./schema.ts";
import { countValues } from "./thrift.ts";

export type Chunk = {
  from: number;
  to: number;
  values: number;
  codec: string;
};
/** `chunks` have the order of the schema's leaves. */
export type RowGroup = { rows: number; chunks: Chunk[] };
export type Footer = { root: Node; leaves: Node[]; groups: RowGroup[]; rows: number };

const FIRST_READ_BYTES = 256 * 1024;
const LARGEST_FOOTER_BYTES = 64 * 2 ** 20;
const MOST_FOOTER_VALUES = 4_000_000;
const MAGIC = "PAR1";
const ENCRYPTED_MAGIC = "PARE";

export async function readFooter(file: SourceFile): Promise<Footer> {
  if (file.bytes < 12) throw new Error(`it has ${file.bytes} bytes, too few for a Parquet file`);
  let tail = await file.read(Math.max(0, file.bytes - FIRST_READ_BYTES), file.bytes);
  const magic = new TextDecoder("latin1").decode(tail.subarray(-4));
  if (magic === ENCRYPTED_MAGIC) throw new Error("it is encrypted, which is not supported");
  if (magic !== MAGIC) throw new Error("its end is not that of a Parquet file: it is truncated, or has another format");
  const length = new DataView(tail.buffer).getUint32(tail.byteLength - 8, true);
  if (length > file.bytes - 12) throw new Error(`its footer claims ${length} bytes, more than the file has`);
  if (length > LARGEST_FOOTER_BYTES) throw new Error(`its footer of ${length} bytes is too large`);
  if (length + 8 > tail.byteLength) {
    const rest = await file.read(file.bytes - length - 8, file.bytes - tail.byteLength);
    tail = new Uint8Array(Buffer.concat([rest, tail]));
  }
  const footer = tail.subarray(-length - 8);
  if (countValues(footer.subarray(0, -8), MOST_FOOTER_VALUES) > MOST_FOOTER_VALUES)
    throw new Error(`its footer describes more than ${MOST_FOOTER_VALUES} values`);
  return judge(parquetMetadata(footer, { geoparquet: false }), file.bytes);
}

function judge(meta: FileMetaData, fileBytes: number): Footer {
  const { root, leaves } = schemaOf(meta.schema);
  const groups = meta.row_groups.map(({ num_rows, columns }): RowGroup => {
    const rows = sane(num_rows, "rows of a row group");
    if (columns.length !== leaves.length)
      throw new Error(`a row group has ${columns.length} columns, but the schema has ${leaves.length}`);
    return { rows, chunks: columns.map((column, i) => chunkOf(column, leaves[i]!, fileBytes)) };
  });
  return { root, leaves, groups, rows: groups.reduce((sum, { rows }) => sum + rows, 0) };
}

type ColumnChunk = FileMetaData["row_groups"][number]["columns"][number];

function chunkOf({ meta_data: meta, file_path, crypto_metadata }: ColumnChunk, leaf: Node, fileBytes: number): Chunk {
  if (crypto_metadata !== undefined || meta === undefined) throw new Error(`column ${leaf.name} is encrypted`);
  if (file_path) throw new Error(`column ${leaf.name} is stored in another file, which is not supported`);
  if (meta.type !== leaf.element.type) throw new Error(`column ${leaf.name} contradicts the schema`);
  const pages = sane(meta.data_page_offset, "offset");
  const dictionary = sane(meta.dictionary_page_offset ?? 0n, "offset");
  const from = dictionary > 0 && dictionary < pages ? dictionary : pages;
  const to = from + sane(meta.total_compressed_size, "size");
  if (to > fileBytes) throw new Error(`column ${leaf.name} claims to end at byte ${to} of ${fileBytes}`);
  return { from, to, values: sane(meta.num_values, "number of values"), codec: meta.codec };
}

function sane(value: bigint | undefined, what: string): number {
  const number = Number(value ?? -1n);
  if (!Number.isSafeInteger(number) || number < 0) throw new Error(`it claims an impossible ${what}: ${value}`);
  return number;
}

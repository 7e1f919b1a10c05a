/** Decodes the pages of one column: from bytes to levels and values. */
import { brotliDecompressSync, crc32, gunzipSync, zstdDecompressSync } from "node:zlib";
import type { PageHeader } from "hyparquet";
import { compressors } from "hyparquet-compressors";
import { readHybrid, widthOf } from "./levels.ts";
import type { Node } from "./schema.ts";
import type { ToText } from "./text.ts";
import { dictionaryValues, readValues } from "./values.ts";

export type Page = {
  count: number;
  /** Undefined if no value is null. */
  defs: Uint32Array | undefined;
  /** Undefined if every value is a row of its own. */
  reps: Uint32Array | undefined;
  /** Returns the JSON text of the k-th non-null value; called in order. */
  text: (k: number) => string;
};

export type Dictionary = (index: number) => string;

const unpackers: Record<string, (bytes: Uint8Array, length: number) => Uint8Array> = {
  UNCOMPRESSED: (bytes) => bytes,
  SNAPPY: compressors.SNAPPY!,
  LZ4: compressors.LZ4!,
  LZ4_RAW: compressors.LZ4_RAW!,
  GZIP: (bytes, length) => gunzipSync(bytes, { maxOutputLength: length + 1 }),
  BROTLI: (bytes, length) => brotliDecompressSync(bytes, { maxOutputLength: length + 1 }),
  ZSTD: (bytes, length) => zstdDecompressSync(bytes, { maxOutputLength: length + 1 }),
};

/** Decompresses into new memory. */
function unpacked(bytes: Uint8Array, codec: string, length: number): Uint8Array {
  const unpack = unpackers[codec];
  if (!unpack) throw new Error(`it is compressed with ${codec}, which is not supported`);
  if (length === 0) return new Uint8Array(0);
  const page = unpack(bytes, length);
  if (page.byteLength !== length) throw new Error(`a page claims ${length} bytes, but has ${page.byteLength}`);
  return page.byteOffset === 0 && page !== bytes ? page : new Uint8Array(page);
}

export function checkSum({ crc }: PageHeader, bytes: Uint8Array) {
  if (crc !== undefined && (crc32(bytes) | 0) !== crc) throw new Error("a page is damaged: its checksum is wrong");
}

export function readDictionary(header: PageHeader, bytes: Uint8Array, leaf: Node, codec: string, toText: ToText) {
  const count = header.dictionary_page_header?.num_values ?? -1;
  const page = unpacked(bytes, codec, header.uncompressed_page_size);
  if (count < 0 || count > page.byteLength * 8) throw new Error(`a dictionary claims ${count} values`);
  const raw = dictionaryValues(page, columnOf(leaf), count);
  const texts: (string | undefined)[] = new Array(count);
  return (index: number): string => {
    const text = texts[index];
    if (text !== undefined) return text;
    if (index >= count) throw new Error("a value is not in its dictionary");
    texts[index] = toText(raw(index));
    return texts[index];
  };
}

type Parts = { header: PageHeader; bytes: Uint8Array; leaf: Node; codec: string };

export function readPage(parts: Parts, dictionary: Dictionary | undefined, toText: ToText): Page {
  const { header, leaf } = parts;
  const split = header.data_page_header_v2 ? splitV2(parts) : splitV1(parts);
  const { count, encoding, defs, reps, values } = split;
  let there = count;
  if (defs) for (const def of defs) if (def !== leaf.def) there--;
  const levels = { count, defs, reps };
  if (encoding === "PLAIN_DICTIONARY" || encoding === "RLE_DICTIONARY") {
    if (!dictionary) throw new Error(`column ${leaf.name} refers to a missing dictionary`);
    const indexes = there === 0 ? new Uint32Array(0) : readHybrid(values.subarray(1), values[0] ?? 0, there);
    return { ...levels, text: (k) => dictionary(indexes[k]!) };
  }
  const raw = readValues(encoding, values, columnOf(leaf), there);
  return { ...levels, text: (k) => toText(raw(k)) };
}

const columnOf = ({ element }: Node) => {
  const width = element.type_length ?? 0;
  if (element.type === "FIXED_LEN_BYTE_ARRAY" && width < 1) throw new Error(`column ${element.name} has no width`);
  return { type: element.type!, width };
};

function splitV1({ header, bytes, leaf, codec }: Parts) {
  const about = header.data_page_header;
  if (!about) throw new Error(`column ${leaf.name} has a page of an unknown kind`);
  const page = unpacked(bytes, codec, header.uncompressed_page_size);
  const view = new DataView(page.buffer, page.byteOffset, page.byteLength);
  const count = about.num_values;
  let at = 0;
  const levels = (most: number, encoding: string) => {
    if (most === 0) return undefined;
    if (encoding !== "RLE") throw new Error(`column ${leaf.name} has levels encoded as ${encoding}`);
    const from = at + 4;
    at = from + view.getUint32(at, true);
    return readHybrid(page.subarray(from, at), widthOf(most), count);
  };
  const reps = levels(leaf.rep, about.repetition_level_encoding);
  const defs = levels(leaf.def, about.definition_level_encoding);
  return { count, encoding: about.encoding, reps, defs, values: page.subarray(at) };
}

/** In a version 2 page the levels precede the compressed part. */
function splitV2({ header, bytes, leaf, codec }: Parts) {
  const about = header.data_page_header_v2!;
  const count = about.num_values;
  const repBytes = about.repetition_levels_byte_length;
  const at = repBytes + about.definition_levels_byte_length;
  if (repBytes < 0 || at < repBytes || at > bytes.byteLength) throw new Error("a page claims impossible levels");
  const reps = leaf.rep === 0 ? undefined : readHybrid(bytes.subarray(0, repBytes), widthOf(leaf.rep), count);
  const defs = leaf.def === 0 ? undefined : readHybrid(bytes.subarray(repBytes, at), widthOf(leaf.def), count);
  const packed = bytes.subarray(at);
  const isPacked = about.is_compressed !== false;
  const values = unpacked(packed, isPacked ? codec : "UNCOMPRESSED", header.uncompressed_page_size - at);
  return { count, encoding: about.encoding, reps, defs, values };
}

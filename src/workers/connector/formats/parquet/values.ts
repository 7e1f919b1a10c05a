import type { ParquetType } from "hyparquet";
import { deltaBinaryUnpack } from "hyparquet/src/delta.js";
import { byteStreamSplit } from "hyparquet/src/encoding.js";
import { readPlain } from "hyparquet/src/plain.js";
import { readHybrid } from "./levels.ts";

/** The bytes of a value. One object serves a whole page and moves with each value: read it before the next call. */
export type Slice = { bytes: Buffer; from: number; to: number };
/** A stored value without its logical type. INT64 is a number if that is exact. INT96 is a bigint. */
export type Raw = number | bigint | boolean | Slice;
/** Returns the k-th non-null value of a page. Called in order, once for each. */
export type Values = (k: number) => Raw;

type Column = { type: ParquetType; width: number };
const FIXED_BYTES: Partial<Record<ParquetType, number>> = { INT32: 4, INT64: 8, INT96: 12, FLOAT: 4, DOUBLE: 8 };

const asBuffer = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const sliceOf = (bytes: Uint8Array): Slice => ({ bytes: asBuffer(bytes), from: 0, to: 0 });

/** `bytes` belong to the page alone, so the result may keep them. */
export function readValues(encoding: string, bytes: Uint8Array, column: Column, count: number): Values {
  if (encoding === "PLAIN") return plainValues(bytes, column, count);
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 };
  switch (encoding) {
    case "RLE": {
      if (column.type !== "BOOLEAN") break;
      const bits = readHybrid(bytes.subarray(4), 1, count); // the first four bytes are the length
      return (k) => bits[k] === 1;
    }
    case "DELTA_BINARY_PACKED": {
      // 64 bits are used for INT32 too: DuckDB writes the first unsigned value so, and hyparquet's 32 bits would
      // truncate it.
      const out = new BigInt64Array(count);
      if (count > 0) deltaBinaryUnpack(reader, count, out);
      return column.type === "INT32" ? (k) => Number(BigInt.asIntN(32, out[k]!)) : (k) => out[k]!;
    }
    case "DELTA_LENGTH_BYTE_ARRAY": {
      const lengths = deltas(reader, count);
      return inOrder(bytes, reader.offset, lengths);
    }
    case "DELTA_BYTE_ARRAY": {
      const prefixes = deltas(reader, count);
      const lengths = deltas(reader, count); // advances the reader to the first suffix
      return restored(prefixes, inOrder(bytes, reader.offset, lengths));
    }
    case "BYTE_STREAM_SPLIT":
      return splitValues(bytes, column, count);
  }
  throw new Error(`a page of ${column.type} has the encoding ${encoding}, which is not supported`);
}

function plainValues(bytes: Uint8Array, { type, width }: Column, count: number): Values {
  if (type === "BYTE_ARRAY") return lengthPrefixed(bytes);
  if (type === "FIXED_LEN_BYTE_ARRAY") return ofWidth(bytes, width, count);
  needs(bytes, count, type === "BOOLEAN" ? 1 / 8 : (FIXED_BYTES[type] ?? 1));
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (type === "INT64") return (k) => longAt(view, k * 8);
  const out = readPlain({ view, offset: 0 }, type, count, undefined);
  return (k) => out[k] as Raw;
}

function longAt(view: DataView, at: number): number | bigint {
  const high = view.getInt32(at + 4, true);
  if (high < -0x200000 || high >= 0x200000) return view.getBigInt64(at, true); // more than 53 bits
  return high * 0x100000000 + view.getUint32(at, true);
}

function needs(bytes: Uint8Array, count: number, each: number) {
  if (count * each > bytes.byteLength)
    throw new Error(`a page claims ${count} values, but has ${bytes.byteLength} bytes for them`);
}

function ofWidth(bytes: Uint8Array, width: number, count: number): Values {
  needs(bytes, count, width);
  const slice = sliceOf(bytes);
  return (k) => {
    slice.from = k * width;
    slice.to = slice.from + width;
    return slice;
  };
}

function splitValues(bytes: Uint8Array, { type, width }: Column, count: number): Values {
  needs(bytes, count, FIXED_BYTES[type] ?? width);
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 };
  const out = byteStreamSplit(reader, count, type, width);
  if (type !== "FIXED_LEN_BYTE_ARRAY") return (k) => out[k] as Raw;
  return ofWidth(Buffer.concat(out as Uint8Array[]), width, count);
}

/** A length precedes each value. */
function lengthPrefixed(bytes: Uint8Array): Values {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const slice = sliceOf(bytes);
  return () => {
    if (slice.to + 4 > bytes.byteLength) throw new Error("a page ends too early");
    slice.from = slice.to + 4;
    slice.to = slice.from + view.getUint32(slice.to, true);
    if (slice.to > bytes.byteLength) throw new Error("a value is longer than its page");
    return slice;
  };
}

function inOrder(bytes: Uint8Array, from: number, lengths: Int32Array): (k: number) => Slice {
  const slice = sliceOf(bytes);
  slice.to = from;
  return (k) => {
    slice.from = slice.to;
    slice.to += lengths[k]!;
    if (slice.to < slice.from || slice.to > bytes.byteLength) throw new Error("a value is longer than its page");
    return slice;
  };
}

/** The values of a dictionary, in any order and any number of times. For texts only their positions are stored. */
export function dictionaryValues(bytes: Uint8Array, column: Column, count: number): Values {
  if (column.type !== "BYTE_ARRAY") return plainValues(bytes, column, count);
  const next = lengthPrefixed(bytes);
  const offsets = new Uint32Array(2 * count);
  for (let k = 0; k < count; k++) {
    const { from, to } = next(k) as Slice;
    offsets[2 * k] = from;
    offsets[2 * k + 1] = to;
  }
  const slice = sliceOf(bytes);
  return (k) => {
    slice.from = offsets[2 * k]!;
    slice.to = offsets[2 * k + 1]!;
    return slice;
  };
}

function deltas(reader: { view: DataView; offset: number }, count: number): Int32Array {
  const out = new Int32Array(count);
  if (count > 0) deltaBinaryUnpack(reader, count, out);
  return out;
}

/**
 * Each value begins with a prefix of the one before. Values are built one at a time, so that a page cannot expand
 * beyond its largest value.
 */
function restored(prefixes: Int32Array, suffixes: (k: number) => Slice): Values {
  const slice = sliceOf(new Uint8Array(0));
  return (k) => {
    const suffix = suffixes(k);
    const shared = prefixes[k]!;
    if (shared < 0 || shared > slice.to - slice.from)
      throw new Error("a value shares a longer prefix than the previous value has");
    const beginning = slice.bytes.subarray(slice.from, slice.from + shared);
    slice.bytes = Buffer.concat([beginning, suffix.bytes.subarray(suffix.from, suffix.to)]);
    slice.from = 0;
    slice.to = slice.bytes.byteLength;
    return slice;
  };
}

import type { ParquetType } from "hyparquet";
import { deltaBinaryUnpack } from "hyparquet/src/delta.js";
import { byteStreamSplit } from "hyparquet/src/encoding.js";
import { readPlain } from "hyparquet/src/plain.js";
import { readHybrid } from "./levels.ts";

/** Where a value's bytes lie. One object for a whole page, moved on with each value: look at it before the next. */
export type Slice = { bytes: Buffer; from: number; to: number };
/** As stored, before any meaning is given to it. INT64 is a number where that is exact. INT96 is a bigint. */
export type Raw = number | bigint | boolean | Slice;
/** The k-th value of a page that is there. Asked for in order, each once. */
export type Values = (k: number) => Raw;

type Column = { type: ParquetType; width: number };
const FIXED_BYTES: Partial<Record<ParquetType, number>> = { INT32: 4, INT64: 8, INT96: 12, FLOAT: 4, DOUBLE: 8 };

const asBuffer = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const sliceOf = (bytes: Uint8Array): Slice => ({ bytes: asBuffer(bytes), from: 0, to: 0 });

/** `bytes` are a page's own: they may go on living. */
export function readValues(encoding: string, bytes: Uint8Array, column: Column, count: number): Values {
  if (encoding === "PLAIN") return plainValues(bytes, column, count);
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 };
  switch (encoding) {
    case "RLE": {
      if (column.type !== "BOOLEAN") break;
      const bits = readHybrid(bytes.subarray(4), 1, count); // four bytes of length come first
      return (k) => bits[k] === 1;
    }
    case "DELTA_BINARY_PACKED": {
      // In 64 bits also for INT32: DuckDB writes the first of unsigned ones so, and hyparquet's 32 bits would cut it.
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
      const lengths = deltas(reader, count); // moves the reader on, to the first suffix
      return restored(prefixes, inOrder(bytes, reader.offset, lengths));
    }
    case "BYTE_STREAM_SPLIT":
      return splitValues(bytes, column, count);
  }
  throw new Error(`a page of ${column.type} is encoded as ${encoding}, which is not supported`);
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
  if (high < -0x200000 || high >= 0x200000) return view.getBigInt64(at, true); // beyond 53 bits
  return high * 0x100000000 + view.getUint32(at, true);
}

function needs(bytes: Uint8Array, count: number, each: number) {
  if (count * each > bytes.byteLength)
    throw new Error(`a page claims ${count} values and has ${bytes.byteLength} bytes for them`);
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

/** Each value is moved to by the length that stands before it. */
function lengthPrefixed(bytes: Uint8Array): Values {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const slice = sliceOf(bytes);
  return () => {
    if (slice.to + 4 > bytes.byteLength) throw new Error("a page ends too soon");
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

/** The values of a dictionary, in any order and as often as wanted: of texts, only where they lie is kept. */
export function dictionaryValues(bytes: Uint8Array, column: Column, count: number): Values {
  if (column.type !== "BYTE_ARRAY") return plainValues(bytes, column, count);
  const next = lengthPrefixed(bytes);
  const places = new Uint32Array(2 * count);
  for (let k = 0; k < count; k++) {
    const { from, to } = next(k) as Slice;
    places[2 * k] = from;
    places[2 * k + 1] = to;
  }
  const slice = sliceOf(bytes);
  return (k) => {
    slice.from = places[2 * k]!;
    slice.to = places[2 * k + 1]!;
    return slice;
  };
}

function deltas(reader: { view: DataView; offset: number }, count: number): Int32Array {
  const out = new Int32Array(count);
  if (count > 0) deltaBinaryUnpack(reader, count, out);
  return out;
}

/** Each value begins as the one before it; one at a time, so that a page cannot unpack into more than its largest. */
function restored(prefixes: Int32Array, suffixes: (k: number) => Slice): Values {
  const slice = sliceOf(new Uint8Array(0));
  return (k) => {
    const suffix = suffixes(k);
    const shared = prefixes[k]!;
    if (shared < 0 || shared > slice.to - slice.from) throw new Error("a value shares more than its neighbour has");
    const beginning = slice.bytes.subarray(slice.from, slice.from + shared);
    slice.bytes = Buffer.concat([beginning, suffix.bytes.subarray(suffix.from, suffix.to)]);
    slice.from = 0;
    slice.to = slice.bytes.byteLength;
    return slice;
  };
}

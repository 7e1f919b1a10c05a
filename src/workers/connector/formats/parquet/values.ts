import type { ParquetType } from "hyparquet";
import { deltaBinaryUnpack } from "hyparquet/src/delta.js";
import { byteStreamSplit } from "hyparquet/src/encoding.js";
import { readPlain } from "hyparquet/src/plain.js";
import { readHybrid } from "./levels.ts";

/** As stored, before any meaning is given to it. INT96 is a bigint. */
export type Raw = number | bigint | boolean | Uint8Array;
/** The k-th value of a page that is there. Asked for in order, each once. */
export type Values = (k: number) => Raw;

type Column = { type: ParquetType; width: number };
const FIXED_BYTES: Partial<Record<ParquetType, number>> = { INT32: 4, INT64: 8, INT96: 12, FLOAT: 4, DOUBLE: 8 };

/** `bytes` are a page's own: views into them may go on living. */
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
    case "DELTA_BYTE_ARRAY":
      return sharedPrefixes(bytes, reader, count);
    case "BYTE_STREAM_SPLIT": {
      needs(bytes, count, FIXED_BYTES[column.type] ?? column.width);
      const out = byteStreamSplit(reader, count, column.type, column.width);
      return (k) => out[k] as Raw;
    }
  }
  throw new Error(`a page of ${column.type} is encoded as ${encoding}, which is not supported`);
}

function plainValues(bytes: Uint8Array, { type, width }: Column, count: number): Values {
  if (type === "BYTE_ARRAY") return lengthPrefixed(bytes);
  if (type === "FIXED_LEN_BYTE_ARRAY") {
    needs(bytes, count, width);
    return (k) => bytes.subarray(k * width, (k + 1) * width);
  }
  needs(bytes, count, type === "BOOLEAN" ? 1 / 8 : (FIXED_BYTES[type] ?? 1));
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const out = readPlain({ view, offset: 0 }, type, count, undefined);
  return (k) => out[k] as Raw;
}

function needs(bytes: Uint8Array, count: number, each: number) {
  if (count * each > bytes.byteLength)
    throw new Error(`a page claims ${count} values and has ${bytes.byteLength} bytes for them`);
}

function lengthPrefixed(bytes: Uint8Array): Values {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  return () => {
    if (at + 4 > bytes.byteLength) throw new Error("a page ends too soon");
    const from = at + 4;
    at = from + view.getUint32(at, true);
    if (at > bytes.byteLength) throw new Error("a value is longer than its page");
    return bytes.subarray(from, at);
  };
}

function inOrder(bytes: Uint8Array, from: number, lengths: Int32Array): Values {
  let at = from;
  return (k) => {
    const start = at;
    at = start + lengths[k]!;
    if (at < start || at > bytes.byteLength) throw new Error("a value is longer than its page");
    return bytes.subarray(start, at);
  };
}

type Reader = { view: DataView; offset: number };

function deltas(reader: Reader, count: number): Int32Array {
  const out = new Int32Array(count);
  if (count > 0) deltaBinaryUnpack(reader, count, out);
  return out;
}

/** Each value begins as the one before it; one at a time, so that a page cannot unpack into more than its largest. */
function sharedPrefixes(bytes: Uint8Array, reader: Reader, count: number): Values {
  const prefixes = deltas(reader, count);
  const lengths = deltas(reader, count); // moves the reader on, to the first suffix
  return restored(prefixes, inOrder(bytes, reader.offset, lengths));
}

function restored(prefixes: Int32Array, suffixes: Values): Values {
  let last: Uint8Array = new Uint8Array(0);
  return (k) => {
    const suffix = suffixes(k) as Uint8Array;
    const shared = prefixes[k]!;
    if (shared < 0 || shared > last.byteLength) throw new Error("a value shares more than its neighbour has");
    if (shared === 0) last = suffix;
    else last = Buffer.concat([last.subarray(0, shared), suffix]);
    return last;
  };
}

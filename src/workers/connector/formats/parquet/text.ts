/**
 * Writes a stored value as exact JSON text: integers of any size and decimals keep their digits. NaN and the
 * infinities, which JSON lacks, become null.
 */
import type { SchemaElement } from "hyparquet";
import { clockText, dateText, instantText, intervalText } from "./time.ts";
import type { Raw, Slice } from "./values.ts";

export type ToText = (value: Raw) => string;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function textOf(element: SchemaElement, name: string, rowBytes: number): ToText {
  switch (element.type) {
    case "BOOLEAN":
      return (value) => (value ? "true" : "false");
    case "INT32":
    case "INT64":
      return integerText(element);
    case "INT96":
      return (value) => instantText(julianNanos(value as bigint), 1_000_000_000n, true);
    case "FLOAT":
    case "DOUBLE":
      return (value) => numberText(value as number);
    default: {
      const text = bytesText(element, name);
      return (value) => {
        const slice = value as Slice;
        const length = slice.to - slice.from;
        if (length > rowBytes)
          throw new Error(`a value of column ${name} has ${length} bytes, more than a row may have`);
        return text(slice);
      };
    }
  }
}

function integerText(element: SchemaElement): ToText {
  const { converted_type: converted, logical_type: logical } = element;
  if (converted === "DECIMAL" || logical?.type === "DECIMAL") {
    const scale = scaleOf(element);
    return (value) => decimalText(BigInt(value as number | bigint), scale);
  }
  if (converted === "DATE" || logical?.type === "DATE") return (value) => dateText(Number(value));
  if (logical?.type === "TIMESTAMP" || logical?.type === "TIME") {
    const { type, unit, isAdjustedToUTC: utc } = logical;
    const write = type === "TIME" ? clockText : instantText;
    return (value) => write(BigInt(value as number | bigint), PER_SECOND[unit], utc);
  }
  const times = CONVERTED_TIMES[converted ?? ""];
  if (times) return (value) => times.write(BigInt(value as number | bigint), times.per, true);
  if (converted?.startsWith("UINT_") || (logical?.type === "INTEGER" && !logical.isSigned))
    return element.type === "INT64"
      ? (value) => ((value as number | bigint) < 0 ? BigInt.asUintN(64, BigInt(value as number)) : value).toString()
      : (value) => String((value as number) >>> 0);
  return String;
}

const PER_SECOND = { MILLIS: 1000n, MICROS: 1_000_000n, NANOS: 1_000_000_000n } as const;
const CONVERTED_TIMES: Record<string, { write: typeof instantText; per: bigint } | undefined> = {
  TIMESTAMP_MILLIS: { write: instantText, per: PER_SECOND.MILLIS },
  TIMESTAMP_MICROS: { write: instantText, per: PER_SECOND.MICROS },
  TIME_MILLIS: { write: clockText, per: PER_SECOND.MILLIS },
  TIME_MICROS: { write: clockText, per: PER_SECOND.MICROS },
};

function bytesText(element: SchemaElement, name: string): (slice: Slice) => string {
  const kind = element.logical_type?.type;
  const converted = element.converted_type;
  if (converted === "DECIMAL" || kind === "DECIMAL") {
    const scale = scaleOf(element);
    return (slice) => decimalText(bigEndian(slice), scale);
  }
  if (kind === "FLOAT16") return ({ bytes, from }) => numberText(half(bytes, from));
  if (kind === "UUID") return (slice) => uuidText(slice);
  if (converted === "INTERVAL") return ({ bytes, from, to }) => intervalText(bytes.subarray(from, to));
  if (converted === "JSON" || kind === "JSON") return (slice) => jsonText(slice, name);
  if (converted === "UTF8" || converted === "ENUM" || kind === "STRING" || kind === "ENUM")
    return (slice) => JSON.stringify(decoded(slice, name));
  return ({ bytes, from, to }) => `"${bytes.toString("base64", from, to)}"`;
}

/** The fast decoder replaces invalid bytes with U+FFFD. A slower check finds out if the character was there before. */
function decoded({ bytes, from, to }: Slice, name: string): string {
  const text = bytes.toString("utf8", from, to);
  if (!text.includes("\ufffd")) return text;
  try {
    return utf8.decode(bytes.subarray(from, to));
  } catch (cause) {
    throw new Error(`a value of column ${name} is not valid UTF-8`, { cause });
  }
}

/** Keeps the text as written, so that its numbers keep their digits. Line breaks in JSON are only between tokens. */
function jsonText(slice: Slice, name: string): string {
  const text = decoded(slice, name).trim();
  try {
    JSON.parse(text);
  } catch (cause) {
    throw new Error(`a value of column ${name} is not valid JSON`, { cause });
  }
  return text.replaceAll(/[\r\n]+/g, " ");
}

const MOST_DIGITS = 1000;

function scaleOf({ scale, logical_type, name }: SchemaElement): number {
  const decimals = (logical_type?.type === "DECIMAL" ? logical_type.scale : scale) ?? 0;
  if (decimals < 0 || decimals > MOST_DIGITS) throw new Error(`column ${name} claims ${decimals} decimal places`);
  return decimals;
}

export function decimalText(unscaled: bigint, scale: number): string {
  if (scale === 0) return unscaled.toString();
  const digits = (unscaled < 0n ? -unscaled : unscaled).toString().padStart(scale + 1, "0");
  return `${unscaled < 0n ? "-" : ""}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

function bigEndian({ bytes, from, to }: Slice): bigint {
  if (from === to) return 0n;
  if (to - from > MOST_DIGITS / 2) throw new Error(`a decimal has ${to - from} bytes`);
  return BigInt.asIntN((to - from) * 8, BigInt(`0x${bytes.toString("hex", from, to)}`));
}

const numberText = (value: number) => (Number.isFinite(value) ? (Object.is(value, -0) ? "-0" : String(value)) : "null");

const half = (bytes: Buffer, at: number) =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getFloat16(at, true);

const uuidText = ({ bytes, from, to }: Slice) =>
  `"${bytes.toString("hex", from, to).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")}"`;

const JULIAN_EPOCH_DAYS = 2_440_588n;
const DAY_NANOS = 86_400_000_000_000n;
const julianNanos = (value: bigint) => ((value >> 64n) - JULIAN_EPOCH_DAYS) * DAY_NANOS + BigInt.asUintN(64, value);

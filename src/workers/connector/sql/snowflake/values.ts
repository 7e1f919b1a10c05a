import { z } from "zod";
import { embeddedJson, numberJson, rowWriter, type ToJson } from "../lines.ts";

export const RowType = z.object({ name: z.string(), type: z.string() });
export type RowType = z.infer<typeof RowType>;

/** Snowflake sends every value as a string, or null. */
const CASTS: Record<string, ToJson> = {
  fixed: numberJson,
  real: numberJson,
  boolean: (text) => (text === "true" || text === "1" ? "true" : "false"),
  date: (text) => JSON.stringify(dateOf(text)),
  time: (text) => JSON.stringify(timeOf(text)),
  timestamp_ntz: (text) => JSON.stringify(momentOf(text, "")),
  timestamp_ltz: (text) => JSON.stringify(momentOf(text, "Z")),
  timestamp_tz: (text) => JSON.stringify(momentOf(text.split(" ")[0]!, "Z")), // the second number is the zone it was written in
  variant: embeddedJson,
  object: embeddedJson,
  array: embeddedJson,
  map: embeddedJson,
  vector: embeddedJson,
  geography: embeddedJson,
  geometry: embeddedJson,
  binary: (text) => `"${Buffer.from(text, "hex").toString("base64")}"`,
};

/** Converts one row as received, a list of strings, to JSON. */
export function rowCast(types: readonly RowType[]): (text: string) => string {
  const casts = types.map(({ type }) => CASTS[type.toLowerCase()] ?? JSON.stringify);
  const write = rowWriter(types.map(({ name }) => name));
  return (text) => {
    const values = JSON.parse(text) as (string | null)[];
    return write(casts.map((cast, i) => (values[i] === null || values[i] === undefined ? "null" : cast(values[i]!))));
  };
}

const NANOS = 1_000_000_000n;

/** Reads seconds with up to nine fraction digits as one number. */
function nanosOf(text: string): bigint | undefined {
  const [, sign = "", whole = "", fraction = ""] = /^(-?)(\d+)(?:\.(\d{1,9}))?$/.exec(text) ?? [];
  if (whole === "") return undefined;
  const nanos = BigInt(whole) * NANOS + BigInt(fraction.padEnd(9, "0"));
  return sign === "-" ? -nanos : nanos;
}

const fractionOf = (nanos: bigint) => (nanos === 0n ? "" : `.${nanos.toString().padStart(9, "0").replace(/0+$/, "")}`);

/** A value that cannot be parsed is passed on as it is. */
function momentOf(text: string, zone: string): string {
  const nanos = nanosOf(text);
  if (nanos === undefined) return text;
  const rest = ((nanos % NANOS) + NANOS) % NANOS;
  const date = new Date(Number((nanos - rest) / 1_000_000n));
  return Number.isNaN(date.getTime()) ? text : `${date.toISOString().slice(0, -5)}${fractionOf(rest)}${zone}`;
}

const DAY_MS = 86_400_000;
function dateOf(text: string): string {
  const date = new Date(Number(text) * DAY_MS);
  return /^-?\d+$/.test(text) && !Number.isNaN(date.getTime()) ? date.toISOString().slice(0, -14) : text;
}

function timeOf(text: string): string {
  const nanos = nanosOf(text);
  if (nanos === undefined || nanos < 0n || nanos >= 86_400n * NANOS) return text;
  const clock = new Date(Number(nanos / NANOS) * 1000).toISOString().slice(11, 19);
  return clock + fractionOf(nanos % NANOS);
}

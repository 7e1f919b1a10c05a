import { z } from "zod";
import { SourceError } from "../../types.ts";
import { embeddedJson, numberJson } from "../lines.ts";

export type Field = { name: string; type: string; mode?: string | undefined; fields?: Field[] | undefined };
export const Field: z.ZodType<Field> = z.lazy(() =>
  z.object({
    name: z.string(),
    type: z.string(),
    mode: z.string().optional(),
    fields: z.array(Field).optional(),
  }),
);

/** Writes a BigQuery value as JSON text. All its scalars are strings, so that no digit is lost. */
type Cast = (value: unknown) => string;

const NUMBERS = ["INTEGER", "INT64", "FLOAT", "FLOAT64", "NUMERIC", "BIGNUMERIC"];

/** Converts one row as received, `{"f": [{"v": …}]}`, to JSON. */
export function rowCast(fields: readonly Field[]): (text: string) => string {
  const cast = recordCast(fields);
  return (text) => cast(JSON.parse(text));
}

function castOf(field: Field): Cast {
  const single = singleCast(field);
  if (field.mode !== "REPEATED") return (value) => (value === null || value === undefined ? "null" : single(value));
  return (value) => {
    if (value === null || value === undefined) return "[]"; // BigQuery has no null lists
    return `[${cells(value).map((item) => (item === null || item === undefined ? "null" : single(item)))}]`;
  };
}

function singleCast({ type, fields }: Field): Cast {
  if (type === "RECORD" || type === "STRUCT") return recordCast(fields ?? []);
  const scalar = scalarCast(type);
  return (value) => {
    if (typeof value !== "string") throw unexpected();
    return scalar(value);
  };
}

function scalarCast(type: string): (text: string) => string {
  if (NUMBERS.includes(type)) return numberJson;
  if (type === "BOOLEAN" || type === "BOOL") return (text) => (text === "true" ? "true" : "false");
  if (type === "TIMESTAMP") return (text) => JSON.stringify(timestamp(text));
  if (type === "JSON") return embeddedJson;
  return JSON.stringify; // BYTES come as base64, dates and times as ISO 8601
}

function recordCast(fields: readonly Field[]): Cast {
  const casts = fields.map(castOf);
  const keys = fields.map(({ name }, i) => `${i === 0 ? "" : ","}${JSON.stringify(name)}:`);
  return (value) => {
    const values = cells((value as { f?: unknown }).f);
    if (values.length !== keys.length) throw unexpected();
    return `{${keys.map((key, i) => key + casts[i]!(values[i])).join("")}}`;
  };
}

function cells(list: unknown): unknown[] {
  if (!Array.isArray(list)) throw unexpected();
  return list.map((cell) => (cell as { v?: unknown } | null)?.v);
}

const unexpected = () => new SourceError("broken", "BigQuery sent a value that does not fit its schema");

/** Microseconds since 1970, as requested; or seconds, from a server without that option. */
export function timestamp(text: string): string {
  const micros = /^-?\d+$/.test(text) ? BigInt(text) : seconds(text);
  if (micros === undefined) return text;
  const rest = ((micros % 1_000_000n) + 1_000_000n) % 1_000_000n;
  const whole = (micros - rest) / 1000n;
  const fraction = rest === 0n ? "" : `.${rest.toString().padStart(6, "0").replace(/0+$/, "")}`;
  return `${new Date(Number(whole)).toISOString().slice(0, -5)}${fraction}Z`;
}

function seconds(text: string): bigint | undefined {
  const value = Number(text);
  return Number.isFinite(value) ? BigInt(Math.round(value * 1e6)) : undefined;
}

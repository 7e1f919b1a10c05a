/** Merges two JSON schemas into one that accepts what both accept. */

import { AppError } from "../../../lib/errors.ts";
import { isObject } from "../../../lib/json/object.ts";
import { numericBounds } from "./numeric_bounds.ts";

export type Schema = { readonly [keyword: string]: unknown };

const MAX_BRANCHES = 64;

/** Keywords that do not affect validation. */
export const ANNOTATIONS = new Set([
  "$schema",
  "$id",
  "$comment",
  "$defs",
  "definitions",
  "title",
  "description",
  "default",
  "example",
  "examples",
  "deprecated",
  "readOnly",
  "writeOnly",
  "contentEncoding",
  "contentMediaType",
  "discriminator",
]);

const NUMERIC = new Set(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]);
const HIGHER = new Set(["minLength", "minItems", "minProperties"]);
const LOWER = new Set(["maxLength", "maxItems", "maxProperties"]);

export const isSchema = (value: unknown): value is Schema => isObject(value);

export const refuse = (at: string, message: string) => new AppError("schema", `${at}: ${message}`, { param: at });

export function constrains(schema: Schema): boolean {
  return Object.keys(schema).some((keyword) => !ANNOTATIONS.has(keyword));
}

/** Merges two subschemas; either may be a boolean. */
function both(a: unknown, b: unknown): unknown {
  if (a === undefined || a === true) return b;
  if (b === undefined || b === true) return a;
  if (a === false || b === false) return false;
  return Bun.deepEquals(a, b) ? a : { allOf: [a, b] };
}

export function merge(a: Schema, b: Schema, at: string): Schema {
  const out: Record<string, unknown> = { ...a };
  for (const [keyword, value] of Object.entries(b)) {
    const present = out[keyword];
    if (NUMERIC.has(keyword) || ANNOTATIONS.has(keyword)) continue;
    if (value === null && keyword !== "const") continue; // null counts as absent
    const absent = present === undefined || (present === null && keyword !== "const");
    out[keyword] = absent ? value : mergeKeyword(keyword, present, value, at);
  }
  Object.assign(out, numericBounds(a, b));
  mergeProperties(out, a, b);
  return out;
}

function mergeKeyword(keyword: string, a: unknown, b: unknown, at: string): unknown {
  if (Bun.deepEquals(a, b)) return a;
  if (keyword === "required") return [...new Set([...(a as string[]), ...(b as string[])])];
  if (keyword === "type") return commonTypes(a, b, at);
  if (keyword === "enum") return (a as unknown[]).filter((x) => (b as unknown[]).some((y) => Bun.deepEquals(x, y)));
  if (keyword === "properties" || keyword === "additionalProperties") return a; // mergeProperties handles both together
  if (keyword === "items") return both(a, b);
  if (keyword === "allOf") return [...(a as unknown[]), ...(b as unknown[])];
  if (keyword === "anyOf" || keyword === "oneOf") return crossed(a as unknown[], b as unknown[], at);
  if (HIGHER.has(keyword)) return Math.max(Number(a), Number(b));
  if (LOWER.has(keyword)) return Math.min(Number(a), Number(b));
  if (keyword === "nullable") return a === true && b === true;
  throw refuse(at, `two different values of ${keyword} cannot be combined. Use one of them`);
}

function commonTypes(a: unknown, b: unknown, at: string): unknown {
  const [left, right] = [[a].flat(), [b].flat()];
  const common = left.filter((type) => right.includes(type));
  const isWhole = (some: readonly unknown[], others: readonly unknown[]) =>
    some.includes("integer") && others.includes("number") && !others.includes("integer");
  if (isWhole(left, right) || isWhole(right, left)) common.push("integer");
  if (common.length === 0) throw refuse(at, `no value is both ${left.join(" or ")} and ${right.join(" or ")}`);
  return common;
}

function crossed(a: readonly unknown[], b: readonly unknown[], at: string): unknown[] {
  if (a.length * b.length > MAX_BRANCHES)
    throw refuse(at, `more than ${MAX_BRANCHES} combinations of alternatives. Use fewer alternatives`);
  return a.flatMap((x) => b.map((y) => both(x, y)));
}

/** A schema without additional properties forbids those that only the other schema names. */
function mergeProperties(out: Record<string, unknown>, a: Schema, b: Schema) {
  const [left, right] = [asProperties(a), asProperties(b)];
  if (!left && !right) return;
  const properties: Record<string, unknown> = {};
  for (const name of new Set([...Object.keys(left ?? {}), ...Object.keys(right ?? {})])) {
    const one = left?.[name] ?? a["additionalProperties"];
    const other = right?.[name] ?? b["additionalProperties"];
    const value = both(one, other) ?? true;
    if (value !== false) properties[name] = value;
  }
  out["properties"] = properties;
  const rest = both(a["additionalProperties"], b["additionalProperties"]);
  if (rest !== undefined) out["additionalProperties"] = rest;
}

const asProperties = (schema: Schema) => (isSchema(schema["properties"]) ? schema["properties"] : undefined);

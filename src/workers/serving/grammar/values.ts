/** enum and const with other keywords: only the values that satisfy all of them remain. */
import { refuse, type Schema } from "./merge.ts";
import { boundsOf } from "./numeric_bounds.ts";
import { pointerTo } from "./objects.ts";

/** Keywords that this file cannot check against a value. */
const UNCHECKED = {
  string: ["pattern", "format"],
  object: ["properties", "additionalProperties", "minProperties", "maxProperties"],
  array: ["items", "prefixItems", "additionalItems"],
};

/** Returns the values of const or enum that the other keywords allow, or undefined if the schema has neither. */
export function allowedValues(
  schema: Schema,
  at: string,
  hasType: (value: unknown) => boolean,
): readonly unknown[] | undefined {
  const one = schema["const"];
  const listed = (schema["enum"] ?? undefined) as readonly unknown[] | undefined;
  if (one === undefined && listed === undefined) return undefined;
  const all = listed ?? [one];
  const values = one === undefined ? all : all.filter((value) => Bun.deepEquals(value, one));
  const allowed = values.filter((value) => hasType(value) && satisfies(value, schema, at));
  if (allowed.length > 0) return allowed;
  throw refuse(pointerTo(at, listed === undefined ? "const" : "enum"), "the other keywords allow none of the values");
}

function satisfies(value: unknown, schema: Schema, at: string): boolean {
  if (typeof value === "number") return inBounds(value, schema);
  if (typeof value === "string") {
    refuseUnchecked("string", schema, at);
    return within([...value].length, schema["minLength"], schema["maxLength"]);
  }
  if (Array.isArray(value)) {
    refuseUnchecked("array", schema, at);
    return within(value.length, schema["minItems"], schema["maxItems"]);
  }
  if (typeof value !== "object" || value === null) return true;
  refuseUnchecked("object", schema, at);
  return ((schema["required"] ?? []) as readonly string[]).every((name) => Object.hasOwn(value, name));
}

function refuseUnchecked(kind: keyof typeof UNCHECKED, schema: Schema, at: string) {
  const unchecked = UNCHECKED[kind].find((keyword) => (schema[keyword] ?? undefined) !== undefined);
  if (unchecked) throw refuse(pointerTo(at, unchecked), `${unchecked} cannot be combined with fixed values. Remove it`);
}

function inBounds(value: number, schema: Schema): boolean {
  const { min, max } = boundsOf(schema);
  const high = !min || value > min.value || (value === min.value && !min.open);
  const low = !max || value < max.value || (value === max.value && !max.open);
  return high && low && (schema["multipleOf"] !== 1 || Number.isInteger(value));
}

const within = (count: number, least: unknown, most: unknown) =>
  count >= ((least as number | undefined) ?? 0) && count <= ((most as number | undefined) ?? Number.POSITIVE_INFINITY);

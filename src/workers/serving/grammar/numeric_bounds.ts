/** Reads minimum, maximum and their exclusive forms, from one schema or from two at once. */
import type { Bound } from "./numbers.ts";

type Schema = { readonly [keyword: string]: unknown };
export type Bounds = { min?: Bound; max?: Bound };

const LIMIT = 1e16;

function tighter(a: Bound | undefined, b: Bound | undefined, sign: 1 | -1): Bound | undefined {
  if (!a || !b) return a ?? b;
  if (a.value === b.value) return a.open ? a : b;
  return (a.value - b.value) * sign > 0 ? a : b;
}

function bound(schema: Schema, plain: string, exclusive: string, sign: 1 | -1): Bound | undefined {
  const [value, strict] = [schema[plain], schema[exclusive]];
  const closed = typeof value === "number" ? { value, open: strict === true } : undefined; // `true` is the draft 4 form
  const open = typeof strict === "number" ? { value: strict, open: true } : undefined;
  const bound = tighter(closed, open, sign);
  return bound && bound.value * sign > -LIMIT ? bound : undefined; // such a bound is too far out to matter
}

export function boundsOf(schema: Schema): Bounds {
  const min = bound(schema, "minimum", "exclusiveMinimum", 1);
  const max = bound(schema, "maximum", "exclusiveMaximum", -1);
  return { ...(min ? { min } : {}), ...(max ? { max } : {}) };
}

/** Returns the keywords that express the bounds of both schemas. */
export function numericBounds(a: Schema, b: Schema): Schema {
  const [left, right] = [boundsOf(a), boundsOf(b)];
  const min = tighter(left.min, right.min, 1);
  const max = tighter(left.max, right.max, -1);
  const none = { minimum: undefined, exclusiveMinimum: undefined, maximum: undefined, exclusiveMaximum: undefined };
  const named = {
    ...(min ? { [min.open ? "exclusiveMinimum" : "minimum"]: min.value } : {}),
    ...(max ? { [max.open ? "exclusiveMaximum" : "maximum"]: max.value } : {}),
  };
  const had = Object.keys(none).filter((key) => a[key] !== undefined || b[key] !== undefined);
  return { ...Object.fromEntries(had.map((key) => [key, undefined])), ...named };
}

/** Checks the values of keywords. An invalid one would otherwise be ignored. */
import { isSchema, refuse, type Schema } from "./merge.ts";
import { pointerTo } from "./objects.ts";

type Shape = { is: (value: unknown) => boolean; says: string };

const MOST = 1_000_000; // no context holds more
const isText = (value: unknown) => typeof value === "string";
const isNumber = (value: unknown) => typeof value === "number" && Number.isFinite(value);
const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;

const LIST: Shape = { is: Array.isArray, says: "must be a list" };
const TEXT: Shape = { is: isText, says: "must be a string" };
const OBJECT: Shape = { is: isSchema, says: "must be an object" };
const COUNT: Shape = { is: isCount, says: "must be an integer, 0 or more" };
const LEAST: Shape = {
  is: (value) => isCount(value) && (value as number) <= MOST,
  says: `must be an integer from 0 to ${MOST}`,
};
const NUMBER: Shape = { is: isNumber, says: "must be a finite number" };
const EXCLUSIVE: Shape = { is: (value) => isNumber(value) || typeof value === "boolean", says: NUMBER.says };

const SHAPES: Record<string, Shape> = {
  enum: LIST,
  allOf: LIST,
  anyOf: LIST,
  oneOf: LIST,
  prefixItems: LIST,
  required: { is: (value) => Array.isArray(value) && value.every(isText), says: "must be a list of strings" },
  properties: OBJECT,
  pattern: TEXT,
  format: TEXT,
  minItems: LEAST,
  minLength: LEAST,
  minProperties: COUNT,
  maxItems: COUNT,
  maxLength: COUNT,
  maxProperties: COUNT,
  minimum: NUMBER,
  maximum: NUMBER,
  exclusiveMinimum: EXCLUSIVE,
  exclusiveMaximum: EXCLUSIVE,
};

/** null counts as absent: some clients write it for a missing keyword. */
export function checkShape(schema: Schema, at: string) {
  for (const [keyword, value] of Object.entries(schema)) {
    const shape = Object.hasOwn(SHAPES, keyword) ? SHAPES[keyword] : undefined;
    if (shape && value !== undefined && value !== null && !shape.is(value))
      throw refuse(pointerTo(at, keyword), shape.says);
  }
}

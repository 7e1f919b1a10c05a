/** Finds texts, lists, tables and numbers of a schema that have no limit. */
import type { z } from "zod";
import { OPAQUE, TABLES } from "../../src/lib/json/outside.ts";

type Check = { _zod: { def: { check: string; maximum?: number; length?: number; value?: number; pattern?: RegExp } } };
type Definition = {
  type: string;
  checks?: Check[];
  check?: string;
  format?: string;
  pattern?: RegExp;
  shape?: Record<string, z.ZodType>;
  catchall?: z.ZodType;
  options?: z.ZodType[];
  items?: z.ZodType[];
  element?: z.ZodType;
  innerType?: z.ZodType;
  valueType?: z.ZodType;
  keyType?: z.ZodType;
  in?: z.ZodType;
  out?: z.ZodType;
  getter?: () => z.ZodType;
};
const definitionOf = (schema: z.ZodType) => schema._zod.def as unknown as Definition;
/** A number of JSON is finite, and an integer of zod is safe. */
const FIXED = ["number", "literal", "enum", "boolean", "null", "undefined", "never"];
const WRAPPERS = ["optional", "nullable", "default", "prefault", "catch", "readonly", "nonoptional"];

/** Paths of a schema that have no limit. Empty for a schema that is fit for outside data. */
export function unboundedIn(schema: z.ZodType, at = ""): string[] {
  const definition = definitionOf(schema);
  const { type } = definition;
  const here = (is: boolean, what: string) => (is ? [] : [`${at || "."}: ${what}`]);
  const below = (inner: z.ZodType | undefined, name = "") => (inner ? unboundedIn(inner, `${at}${name}`) : []);
  if (FIXED.includes(type)) return [];
  if (WRAPPERS.includes(type)) return below(definition.innerType);
  switch (type) {
    case "lazy":
      return below(definition.getter?.());
    case "string":
      return here(isShort(definition), "a text without a limit");
    case "array":
      return [...here(limitOf(definition) !== undefined, "a list without a limit"), ...below(definition.element, "[]")];
    case "tuple":
      return (definition.items ?? []).flatMap((item, i) => below(item, `[${i}]`));
    case "object":
      return [
        ...Object.entries(definition.shape ?? {}).flatMap(([name, inner]) => below(inner, `.${name}`)),
        ...here(definition.catchall === undefined || definitionOf(definition.catchall).type === "never", "any field"),
      ];
    case "record":
      return [...here(TABLES.has(schema), "a record that is not a `table`"), ...below(definition.valueType, "{}")];
    case "pipe":
      return isTable(definition) ? below(definition.out) : [...below(definition.in), ...below(definition.out)];
    case "union":
      return (definition.options ?? []).flatMap((option, i) => below(option, `|${i}`));
    case "transform":
      return [];
    case "unknown":
    case "any":
      return here(OPAQUE.has(schema), "any value");
    default:
      return [`${at || "."}: ${type}`];
  }
}

const isTable = ({ out }: Definition) => out !== undefined && TABLES.has(out);

const limitOf = ({ checks = [] }: Definition): number | undefined =>
  checks.map(({ _zod: { def } }) => def.maximum ?? def.length).find((limit) => limit !== undefined);

/** A pattern limits a text if it covers all of it and repeats nothing without an end. */
const isClosed = (pattern: RegExp | undefined) =>
  pattern !== undefined && /^\^.*\$$/s.test(pattern.source) && !/[^\\][*+]|,\}/.test(pattern.source);

const isShort = (definition: Definition) =>
  limitOf(definition) !== undefined ||
  isClosed(definition.pattern) ||
  (definition.checks ?? []).some(({ _zod: { def } }) => isClosed(def.pattern));

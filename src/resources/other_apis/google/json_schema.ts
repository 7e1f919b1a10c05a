/** Schemas as Google writes them, as JSON schemas. Pure. */
import { isObject } from "../../../lib/json/object.ts";

type Schema = Record<string, unknown>;

/** Numbers that Google's interface also takes as texts. */
const COUNTS = ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"];
/** Widths of numbers, and a word for `enum`: a JSON schema has no such formats. */
const FORMATS: readonly unknown[] = ["int32", "int64", "float", "double", "enum"];

const each = (value: unknown): unknown => (isObject(value) ? toJsonSchema(value) : value);
const eachOf = (value: unknown): unknown =>
  isObject(value) ? Object.fromEntries(Object.entries(value).map(([name, part]) => [name, each(part)])) : value;

export function toJsonSchema({ type, format, nullable, propertyOrdering: _, ...rest }: Schema): Schema {
  const schema: Schema = { ...rest };
  for (const name of COUNTS) if (typeof schema[name] === "string") schema[name] = Number(schema[name]);
  if ("items" in schema) schema["items"] = each(schema["items"]);
  if ("properties" in schema) schema["properties"] = eachOf(schema["properties"]);
  if (Array.isArray(schema["anyOf"])) schema["anyOf"] = schema["anyOf"].map(each);
  if (format !== undefined && !FORMATS.includes(format)) schema["format"] = format;
  const kind = typeof type === "string" ? type.toLowerCase() : type;
  const typed = kind === undefined || kind === "type_unspecified" ? schema : { type: kind, ...schema };
  return nullable === true ? { anyOf: [typed, { type: "null" }] } : typed;
}

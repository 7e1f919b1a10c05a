/** Bodies from the document of the interface: nearly what an operation takes, and then one thing is wrong. */
import { type Chance, textFrom, valueFrom } from "./request_random.ts";

export type Schema = {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: Schema | boolean;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  minLength?: number;
  maxLength?: number;
  maxItems?: number;
};
export type Schemas = Record<string, Schema>;

const WRONG = 12; // one value in so many is another than the schema says

export function bodyFrom(schema: Schema, schemas: Schemas, chance: Chance, depth = 0): unknown {
  const { one, below, rarely, times } = chance;
  const inner = (part: Schema) => bodyFrom(part, schemas, chance, depth + 1);
  if (rarely(WRONG) || depth > 8) return valueFrom(chance, depth);
  if (schema.$ref) return inner(schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {});
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return one(schema.enum);
  const choices = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (choices?.length) return inner(one(choices));
  const type = Array.isArray(schema.type) ? one(schema.type) : schema.type;
  if (type === "object" || schema.properties) {
    const { properties = {}, required = [], additionalProperties } = schema;
    const named = Object.entries(properties).filter(([name]) => (required.includes(name) ? !rarely(10) : rarely(3)));
    const more = typeof additionalProperties === "object" ? additionalProperties : {};
    const strangers =
      additionalProperties === undefined && !rarely(6) ? [] : times(4, () => textFrom(chance).slice(0, 40));
    return Object.fromEntries([
      ...named.map(([name, part]) => [name, inner(part)]),
      ...strangers.map((name) => [name, inner(more)]),
    ]);
  }
  if (type === "array") return times(rarely(20) ? 2_000 : 4, () => inner(schema.items ?? {}));
  if (type === "string") return textFrom(chance).slice(0, rarely(5) ? undefined : (schema.maxLength ?? 100));
  if (type === "integer" || type === "number") {
    const low = schema.minimum ?? 0;
    const high = Math.min(schema.maximum ?? low + 100, low + 1e6);
    return rarely(6) ? one([low - 1, high + 1, low + 0.5, 1e308]) : low + below(high - low + 1);
  }
  if (type === "boolean") return rarely(2);
  return valueFrom(chance, depth);
}

/** The text of a body, and one time in some what is no JSON any more. */
export function textOf(body: unknown, chance: Chance): Buffer {
  const { below, rarely, one } = chance;
  const text = JSON.stringify(body) ?? "";
  if (!rarely(6)) return Buffer.from(text);
  const bytes = Buffer.from(text);
  const at = below(bytes.length + 1);
  const cut = [bytes.subarray(0, at), bytes.subarray(at)] as const;
  return one([
    () => cut[0],
    () => Buffer.concat([cut[0], Buffer.from([0xff, below(256)]), cut[1]]),
    () =>
      Buffer.concat([cut[0], Buffer.from(one(["{", "]", ",", '"', "\\", "\u0000", "1e999", "//x", "NaN"])), cut[1]]),
    () => Buffer.from(`\ufeff${text}`),
    () => Buffer.from(`${"[".repeat(1 + below(5_000))}${text}`),
    () => Buffer.from(`{"a":${text},"a":${text}}`),
    () => Buffer.concat([bytes, bytes]),
    () => Buffer.from(text.replaceAll(/\d+/g, () => one(["1e400", "-0", "00", "1.", ".5", "0x1", "9".repeat(400)]))),
  ])();
}

/** One call for each way in which a field of a request can be right or wrong, from the document of the interface. */
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020";
import addFormats from "ajv-formats";
import type { Schema, Schemas } from "../../scripts/fuzz/request_bodies.ts";
import type { Random } from "../../src/lib/random.ts";

export type Field = { path: readonly string[]; schema: Schema; required: boolean };
/** `wrong`: the document refuses this value, so the answer must be an error that names the field. */
export type Value = { value: unknown; wrong: boolean };

export const pick = <T>(random: Random, items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;

const DEEPEST = 3;
const TEXTS = [
  "",
  " ",
  "x",
  "\u0000",
  "😀",
  "ü\u202e",
  "'; DROP TABLE workspaces;--",
  "../../x",
  "__proto__",
  "NaN",
  "1e999",
];

export function openDocument(schemas: Schemas) {
  const ajv = new Ajv2020({ strict: false, logger: false });
  addFormats.default(ajv);
  ajv.addSchema({ $id: "api", components: { schemas } });
  const compiled = new Map<Schema, ValidateFunction>();
  const accepts = (schema: Schema, value: unknown): boolean => {
    let validate = compiled.get(schema);
    if (!validate) {
      validate = ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"api#/')));
      compiled.set(schema, validate);
    }
    return validate(value);
  };
  const resolve = (schema: Schema): Schema =>
    schema.$ref === undefined ? schema : resolve(schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {});

  /** The fields of an object and of the objects in it. Fields of a union are those of its first object. */
  function fieldsOf(schema: Schema, path: readonly string[] = []): Field[] {
    const whole = resolve(schema);
    const parts = [whole, ...[...(whole.anyOf ?? whole.oneOf ?? [])].map(resolve)];
    const object = parts.find(({ properties }) => properties !== undefined);
    const all = (whole.allOf ?? []).flatMap((part) => fieldsOf(part, path));
    if (!object?.properties || path.length >= DEEPEST) return all;
    const own = Object.entries(object.properties).flatMap(([name, part]) => {
      const at = [...path, name];
      const field = { path: at, schema: part, required: object.required?.includes(name) ?? false };
      return [field, ...fieldsOf(part, at)];
    });
    return [...all, ...own];
  }

  /** Values at the borders of what a field takes, and some far from it. */
  function valueFor(schema: Schema, random: Random): Value {
    const parts = [resolve(schema), ...(resolve(schema).anyOf ?? resolve(schema).oneOf ?? []).map(resolve)];
    const one = <T>(items: readonly T[]): T => pick(random, items);
    const borders = parts.flatMap((part): unknown[] => [
      ...(part.enum ?? []),
      ...(part.const === undefined ? [] : [part.const]),
      ...(part.minimum === undefined ? [] : [part.minimum, part.minimum - 1]),
      ...(part.exclusiveMinimum === undefined ? [] : [part.exclusiveMinimum]),
      ...(part.maximum === undefined ? [] : [part.maximum, part.maximum + 1]),
      ...(part.maxLength === undefined ? [] : ["x".repeat(part.maxLength), "x".repeat(part.maxLength + 1)]),
      ...(part.minLength === undefined
        ? []
        : ["x".repeat(part.minLength), "x".repeat(Math.max(0, part.minLength - 1))]),
      ...(part.maxItems !== undefined && part.maxItems < 5_000 ? [Array(part.maxItems + 1).fill("x")] : []),
    ]);
    const far = [
      null,
      true,
      false,
      0,
      -1,
      1,
      1.5,
      1e308,
      2 ** 53,
      [],
      {},
      [1],
      { a: 1 },
      one(TEXTS),
      "ü".repeat(70_000),
    ];
    const value = borders.length > 0 && random() < 0.5 ? one(borders) : one(far);
    return { value, wrong: !accepts(schema, value) };
  }
  return { accepts, resolve, fieldsOf, valueFor };
}
export type Contract = ReturnType<typeof openDocument>;

/** A copy of `body` with `value` at `path`; `undefined` removes the field. */
export function withField(body: unknown, path: readonly string[], value: unknown): unknown {
  const copy = structuredClone(body ?? {}) as Record<string, unknown>;
  let at = copy;
  for (const name of path.slice(0, -1)) {
    if (typeof at[name] !== "object" || at[name] === null || Array.isArray(at[name])) at[name] = {};
    at = at[name] as Record<string, unknown>;
  }
  const last = path.at(-1) ?? "";
  if (value === undefined) delete at[last];
  else Object.defineProperty(at, last, { value, enumerable: true, writable: true, configurable: true });
  return copy;
}

export const pointerTo = (path: readonly string[]) =>
  path.map((name) => `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");

/** A typing error in the name: its last two letters change places. */
export const misspelt = (name: string): string => `${name.slice(0, -2)}${name.at(-1)}${name.at(-2)}`;

/** Takes a zod schema apart, once for each schema: every request body is walked. */
import type { z } from "zod";

export type Schema = z.core.$ZodType;
type ObjectSchema = z.core.$ZodObject;
type Inside = {
  objects: readonly ObjectSchema[];
  /** Schemas of the elements, if it is a list. */
  elements: readonly Schema[];
  /** True: it takes objects with any names too. */
  takesAny: boolean;
};

const isObject = (schema: Schema): schema is ObjectSchema => schema._zod.def.type === "object";
const isArray = (schema: Schema): schema is z.core.$ZodArray => schema._zod.def.type === "array";
const FREE = new Set(["record", "any", "unknown", "custom", "map"]);

const insides = new WeakMap<Schema, Inside>();
type Kind = readonly (readonly [name: string, values: readonly unknown[]])[];
const kinds = new WeakMap<ObjectSchema, Kind>();

/** Finds what a value that fits one of the schemas can contain. */
export function insideOf(schemas: readonly Schema[]): Inside {
  const [first, ...more] = schemas.map(insideOfOne);
  if (first && more.length === 0) return first;
  const all = first ? [first, ...more] : more;
  return {
    objects: all.flatMap(({ objects }) => objects),
    elements: all.flatMap(({ elements }) => elements),
    takesAny: all.some(({ takesAny }) => takesAny),
  };
}

function insideOfOne(schema: Schema): Inside {
  const stored = insides.get(schema);
  if (stored) return stored;
  const all = unwrap(schema);
  const inside = {
    objects: all.filter(isObject),
    elements: all.filter(isArray).map((each) => each._zod.def.element),
    takesAny: all.some(({ _zod }) => FREE.has(_zod.def.type)),
  };
  insides.set(schema, inside);
  return inside;
}

/** The schemas that fit by fields such as `type` or `role`, which say what kind of object it is. All, if none fits. */
export function ofKind(objects: readonly ObjectSchema[], value: object): readonly ObjectSchema[] {
  if (objects.length === 1) return objects;
  const fields = value as Record<string, unknown>;
  const fitting = objects.filter((each) => kindOf(each).every(([name, values]) => values.includes(fields[name])));
  const named = fitting.filter((each) => kindOf(each).length > 0); // a schema of any kind fits too
  return named.length > 0 ? named : fitting.length > 0 ? fitting : objects;
}

function kindOf(schema: ObjectSchema): Kind {
  const stored = kinds.get(schema);
  if (stored) return stored;
  const literals = Object.entries(schema._zod.def.shape).filter(([, { _zod }]) => _zod.def.type === "literal");
  const kind = literals.map(
    ([name, { _zod }]) => [name, (_zod.def as z.core.$ZodLiteralDef<z.core.util.Literal>).values] as const,
  );
  kinds.set(schema, kind);
  return kind;
}

export function fieldsOf(objects: readonly ObjectSchema[], name: string): Schema[] {
  const fields: Schema[] = [];
  for (const { _zod } of objects) if (Object.hasOwn(_zod.def.shape, name)) fields.push(_zod.def.shape[name] as Schema);
  return fields;
}

export const namesOf = (objects: readonly ObjectSchema[]): string[] => [
  ...new Set(objects.flatMap((schema) => Object.keys(schema._zod.def.shape))),
];

/** The schemas behind optional, default, union and the like. */
function unwrap(schema: Schema): Schema[] {
  const def = schema._zod.def as {
    type: string;
    innerType?: Schema;
    getter?: () => Schema;
    options?: Schema[];
    in?: Schema;
    out?: Schema;
    left?: Schema;
    right?: Schema;
  };
  if (def.type === "union") return (def.options ?? []).flatMap(unwrap);
  if (def.type === "lazy" && def.getter) return unwrap(def.getter());
  if (def.type === "pipe" && def.in && def.out) return unwrap(def.in._zod.def.type === "transform" ? def.out : def.in);
  if (def.type === "intersection" && def.left && def.right) return [def.left, def.right].flatMap(unwrap);
  return def.innerType ? unwrap(def.innerType) : [schema];
}

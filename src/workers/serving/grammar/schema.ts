/**
 * JSON schema → GBNF: what the model writes under it satisfies the schema. A keyword that could not be kept is refused
 * with its place, never passed over. oneOf is read as anyOf. Objects are closed unless the schema opens them.
 * Not covered: alternatives that begin alike at every level of a recursive schema can be slow to follow; a model that
 * stops decoding over one is found by its health check.
 */

import { constrains, isSchema, merge, refuse, type Schema } from "./merge.ts";
import { integerBetween, numberBetween } from "./numbers.ts";
import { boundsOf } from "./numeric_bounds.ts";
import { arrayRule, objectRule, type Place, pointerTo } from "./objects.ts";
import { createRules, literal, MAX_WEIGHT, type Rules } from "./rules.ts";
import { checkShape } from "./shape.ts";
import { stringRule } from "./strings.ts";
import { allowedValues } from "./values.ts";

const MAX_NODES = 1_000; // a grammar of more takes llama.cpp so long to read that streams stutter
const MAX_DEPTH = 100;
const TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"] as const;
type Type = (typeof TYPES)[number];

/** Which type a keyword is about, for schemas that name none. */
const IMPLIES: Record<string, Type> = {
  properties: "object",
  required: "object",
  additionalProperties: "object",
  items: "array",
  prefixItems: "array",
  minItems: "array",
  maxItems: "array",
  minLength: "string",
  maxLength: "string",
  pattern: "string",
  format: "string",
  minimum: "number",
  maximum: "number",
  exclusiveMinimum: "number",
  exclusiveMaximum: "number",
};

type Keep = (value: unknown) => boolean;
const never: Keep = () => false;
/** Keywords that say something about validity which a grammar cannot keep, but for the harmless values. */
const REFUSED: Record<string, Keep> = {
  not: never,
  if: never,
  patternProperties: (value) => isSchema(value) && Object.keys(value).length === 0,
  propertyNames: (value) => isSchema(value) && Object.keys(value).every((k) => k === "type"),
  dependentRequired: never,
  dependentSchemas: never,
  dependencies: never,
  contains: never,
  uniqueItems: (value) => value === false,
  multipleOf: (value) => value === 1,
  unevaluatedProperties: (value) => typeof value === "boolean", // false: objects are closed anyway
  unevaluatedItems: (value) => value === true,
  $dynamicRef: never,
  $recursiveRef: never,
};

/** `root` of the grammar is the schema; `at` is where it stands in the request. */
export function schemaGrammar(schema: unknown, at: string): string {
  const rules = createRules();
  return rules.toGrammar(compileSchema(schema, at, rules));
}

/** Any JSON object. */
export const jsonObjectGrammar = () => createRules().toGrammar("object");

export function compileSchema(schema: unknown, at: string, rules: Rules): string {
  return new Compiler(schema, at, rules).compile();
}

class Compiler {
  private readonly references = new Map<string, string>();
  private entered = new Set<string>(); // references followed since the last bracket: to meet one again is no way on
  private nodes = 0;
  private depth = 0;

  constructor(
    private readonly document: unknown,
    private readonly root: string,
    private readonly rules: Rules,
  ) {}

  compile(): string {
    return this.reference("#", this.root);
  }

  private visit = (schema: unknown, at: string): string => {
    if (schema === true) return "value";
    if (schema === false) throw refuse(at, "false accepts nothing");
    if (!isSchema(schema)) throw refuse(at, "a schema is an object, true or false");
    if (++this.nodes > MAX_NODES) throw refuse(at, `the schema has more than ${MAX_NODES} parts`);
    if (++this.depth > MAX_DEPTH) throw refuse(at, `the schema is nested more than ${MAX_DEPTH} levels deep`);
    try {
      const rule = this.visitObject(schema, at);
      if (this.rules.weight() > MAX_WEIGHT)
        throw refuse(at, "the schema is too large: fewer values, shorter lengths or smaller counts are needed");
      return rule;
    } finally {
      this.depth--;
    }
  };

  private visitInside = (schema: unknown, at: string): string => {
    const before = this.entered;
    this.entered = new Set();
    const rule = this.visit(schema, at);
    this.entered = before;
    return rule;
  };

  private visitObject(schema: Schema, at: string): string {
    for (const [keyword, value] of Object.entries(schema)) {
      const harmless = Object.hasOwn(REFUSED, keyword) ? REFUSED[keyword] : undefined;
      if (harmless && value !== undefined && !harmless(value))
        throw refuse(pointerTo(at, keyword), `${keyword} is not supported: leave it out or say it another way`);
    }
    checkShape(schema, at);
    if (!constrains(schema)) return "value";
    const { $ref, allOf, anyOf, oneOf, nullable, ...rest } = schema;
    if ($ref !== undefined) return this.visitReference($ref, { ...schema, $ref: undefined }, at);
    if (nullable === true) return this.rules.define(`${this.visit({ ...schema, nullable: undefined }, at)} | null`);
    if (Array.isArray(allOf))
      return this.visit(
        allOf.reduce<Schema>((all, part, i) => merge(all, this.plain(part, pointerTo(at, "allOf", String(i))), at), {
          ...rest,
          ...(anyOf ? { anyOf } : {}),
          ...(oneOf ? { oneOf } : {}),
        }),
        at,
      );
    if (Array.isArray(anyOf)) return this.alternatives("anyOf", anyOf, { ...rest, ...(oneOf ? { oneOf } : {}) }, at);
    if (Array.isArray(oneOf)) return this.alternatives("oneOf", oneOf, rest, at);
    return this.byType(rest, at);
  }

  private alternatives(keyword: string, branches: readonly unknown[], rest: Schema, at: string): string {
    if (branches.length === 0) throw refuse(pointerTo(at, keyword), "needs at least one alternative");
    const alone = !constrains(rest);
    const names = branches.map((branch, i) => {
      const place = pointerTo(at, keyword, String(i));
      return this.visit(alone ? branch : merge(rest, this.plain(branch, place), place), place);
    });
    return this.rules.define([...new Set(names)].join(" | "));
  }

  /** A part of allOf with its reference resolved, so that it can be merged. */
  private plain(part: unknown, at: string, hops = 0): Schema {
    if (part === true) return {};
    if (!isSchema(part)) throw refuse(at, "a schema is an object, true or false");
    checkShape(part, at);
    if (typeof part["$ref"] !== "string") return part;
    if (hops > MAX_DEPTH) throw refuse(at, "the references lead in a circle");
    const { $ref, ...rest } = part;
    return merge(this.plain(this.lookUp($ref as string, at), at, hops + 1), rest, at);
  }

  private visitReference(ref: unknown, rest: Schema, at: string): string {
    if (typeof ref !== "string") throw refuse(pointerTo(at, "$ref"), "must be a string");
    const siblings = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
    if (!constrains(siblings)) return this.reference(ref, pointerTo(at, "$ref"));
    return this.visit(merge(this.plain({ $ref: ref }, at), siblings, at), at);
  }

  private reference(ref: string, at: string): string {
    if (this.entered.has(ref)) throw refuse(at, `${ref} leads back to itself with nothing between`);
    const known = this.references.get(ref);
    if (known) return known;
    const target = this.lookUp(ref, at);
    const { name, is } = this.rules.reserve();
    this.references.set(ref, name);
    this.entered.add(ref);
    is(this.visit(target, `${this.root}${ref.slice(1)}`));
    this.entered.delete(ref);
    return name;
  }

  private lookUp(ref: string, at: string): unknown {
    if (!/^#($|\/)/.test(ref)) throw refuse(at, `${ref} is outside this schema: only #/… is followed`);
    let found = this.document;
    for (const part of ref.split("/").slice(1)) {
      const key = decoded(part).replaceAll("~1", "/").replaceAll("~0", "~");
      found =
        typeof found === "object" && found !== null && Object.hasOwn(found, key) ? (found as Schema)[key] : undefined;
      if (found === undefined) throw refuse(at, `${ref} leads nowhere`);
    }
    return found;
  }

  private byType(schema: Schema, at: string): string {
    const types = schema["type"] === undefined ? undefined : typesOf(schema, at);
    const values = allowedValues(schema, at, (value) => types?.some((type) => isOf(value, type)) ?? true);
    if (values) return this.rules.define(values.map((value) => literal(JSON.stringify(value))).join(" | "));
    const names = typesOf(schema, at).map((type) => this.typed(type, schema, at));
    return names.length === 1 ? (names[0] as string) : this.rules.define([...new Set(names)].join(" | "));
  }

  private typed(type: Type, schema: Schema, at: string): string {
    const place: Place = { rules: this.rules, visit: this.visitInside, at };
    if (type === "object") return objectRule(schema, place);
    if (type === "array") return arrayRule(schema, place);
    if (type === "string") return stringRule(schema, this.rules, at);
    if (type === "number" || type === "integer") return this.numeric(type, schema, at);
    return type;
  }

  private numeric(type: "number" | "integer", schema: Schema, at: string): string {
    const { min, max } = boundsOf(schema);
    const whole = type === "integer" || schema["multipleOf"] === 1;
    if (!min && !max) return whole ? "integer" : "number";
    const low = min && BigInt(min.open ? Math.floor(min.value) + 1 : Math.ceil(min.value));
    const high = max && BigInt(max.open ? Math.ceil(max.value) - 1 : Math.floor(max.value));
    const body = whole ? integerBetween(low, high) : numberBetween(min, max);
    if (body === undefined) throw refuse(at, "no number lies between the bounds");
    return this.rules.define(body);
  }
}

/** A lone % is itself. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function typesOf(schema: Schema, at: string): Type[] {
  const given = schema["type"];
  if (given === undefined) {
    const implied = new Set(Object.keys(schema).flatMap((k) => (schema[k] !== undefined && IMPLIES[k]) || []));
    return implied.size > 0 ? [...implied] : [...TYPES];
  }
  const types = [given].flat();
  const unknown = types.find((type) => !TYPES.includes(type as Type));
  if (unknown !== undefined || types.length === 0)
    throw refuse(pointerTo(at, "type"), `${JSON.stringify(unknown)} is no type: use ${TYPES.join(", ")}`);
  return types as Type[];
}

function isOf(value: unknown, type: Type): boolean {
  if (value === null) return type === "null";
  if (Array.isArray(value)) return type === "array";
  if (typeof value === "number") return type === "number" || (type === "integer" && Number.isInteger(value));
  return typeof value === type;
}

/**
 * Compiles a JSON schema to GBNF: every text that the grammar allows satisfies the schema. An unsupported keyword is
 * rejected with its JSON pointer, never ignored. oneOf is read as anyOf. Objects are closed unless the schema opens
 * them. Not covered: alternatives that begin alike at every level of a recursive schema can be slow to follow. The
 * health check finds a model that stops decoding because of one.
 */

import { constrains, isSchema, merge, refuse, type Schema } from "./merge.ts";
import { integerBetween, numberBetween } from "./numbers.ts";
import { boundsOf } from "./numeric_bounds.ts";
import { arrayRule, objectRule, pointerTo, type RuleContext } from "./objects.ts";
import { createRules, literal, MAX_WEIGHT, type Rules } from "./rules.ts";
import { checkShape } from "./shape.ts";
import { stringRule } from "./strings.ts";
import { allowedValues } from "./values.ts";

const MAX_NODES = 1_000; // llama.cpp takes so long to read a larger grammar that streams stutter
const MAX_DEPTH = 100;
const TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"] as const;
type Type = (typeof TYPES)[number];

/** The type that a keyword implies, for schemas without `type`. */
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
/** Keywords that a grammar cannot enforce. The functions accept the harmless values. */
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
  unevaluatedProperties: (value) => typeof value === "boolean", // false is harmless because objects are closed anyway
  unevaluatedItems: (value) => value === true,
  $dynamicRef: never,
  $recursiveRef: never,
};

/** The grammar's `root` is the schema. `at` is the schema's JSON pointer in the request. */
export function schemaGrammar(schema: unknown, at: string): string {
  const rules = createRules();
  return rules.toGrammar(compileSchema(schema, at, rules));
}

export function compileSchema(schema: unknown, at: string, rules: Rules): string {
  return new Compiler(schema, at, rules).compile();
}

class Compiler {
  private readonly references = new Map<string, string>();
  // references followed since the last bracket: meeting one again is an endless loop
  private entered = new Set<string>();
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
    if (schema === false) throw refuse(at, "the schema `false` accepts no value");
    if (!isSchema(schema)) throw refuse(at, "a schema must be an object, true or false");
    if (++this.nodes > MAX_NODES) throw refuse(at, `the schema has more than ${MAX_NODES} parts. Make it smaller`);
    if (++this.depth > MAX_DEPTH) throw refuse(at, `the schema is nested more than ${MAX_DEPTH} levels deep`);
    try {
      const rule = this.visitObject(schema, at);
      if (this.rules.weight() > MAX_WEIGHT)
        throw refuse(at, "the schema is too large. Use fewer values, shorter lengths or smaller counts");
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
        throw refuse(
          pointerTo(at, keyword),
          `${keyword} is not supported. Remove it or express it with other keywords`,
        );
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
      const branchAt = pointerTo(at, keyword, String(i));
      return this.visit(alone ? branch : merge(rest, this.plain(branch, branchAt), branchAt), branchAt);
    });
    return this.rules.define([...new Set(names)].join(" | "));
  }

  /** Returns a part of allOf with its reference resolved, so that it can be merged. */
  private plain(part: unknown, at: string, hops = 0): Schema {
    if (part === true) return {};
    if (!isSchema(part)) throw refuse(at, "a schema must be an object, true or false");
    checkShape(part, at);
    if (typeof part["$ref"] !== "string") return part;
    if (hops > MAX_DEPTH) throw refuse(at, "the references form a cycle");
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
    if (this.entered.has(ref)) throw refuse(at, `${ref} refers to itself with no object or array between`);
    const rule = this.references.get(ref);
    if (rule) return rule;
    const target = this.lookUp(ref, at);
    const { name, is } = this.rules.reserve();
    this.references.set(ref, name);
    this.entered.add(ref);
    is(this.visit(target, `${this.root}${ref.slice(1)}`));
    this.entered.delete(ref);
    return name;
  }

  private lookUp(ref: string, at: string): unknown {
    if (!/^#($|\/)/.test(ref))
      throw refuse(at, `${ref} is outside this schema. Only references that begin with #/ are supported`);
    let schema = this.document;
    for (const part of ref.split("/").slice(1)) {
      const key = decoded(part).replaceAll("~1", "/").replaceAll("~0", "~");
      schema =
        typeof schema === "object" && schema !== null && Object.hasOwn(schema, key)
          ? (schema as Schema)[key]
          : undefined;
      if (schema === undefined) throw refuse(at, `${ref} does not exist in this schema`);
    }
    return schema;
  }

  private byType(schema: Schema, at: string): string {
    const types = schema["type"] === undefined ? undefined : typesOf(schema, at);
    const values = allowedValues(schema, at, (value) => types?.some((type) => isOf(value, type)) ?? true);
    if (values) return this.rules.define(values.map((value) => literal(JSON.stringify(value))).join(" | "));
    const names = typesOf(schema, at).map((type) => this.typed(type, schema, at));
    return names.length === 1 ? (names[0] as string) : this.rules.define([...new Set(names)].join(" | "));
  }

  private typed(type: Type, schema: Schema, at: string): string {
    const context: RuleContext = { rules: this.rules, visit: this.visitInside, at };
    if (type === "object") return objectRule(schema, context);
    if (type === "array") return arrayRule(schema, context);
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

/** A % without a valid code stands for itself. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function typesOf(schema: Schema, at: string): Type[] {
  const type = schema["type"];
  if (type === undefined) {
    const implied = new Set(Object.keys(schema).flatMap((k) => (schema[k] !== undefined && IMPLIES[k]) || []));
    return implied.size > 0 ? [...implied] : [...TYPES];
  }
  const types = [type].flat();
  const unknown = types.find((type) => !TYPES.includes(type as Type));
  if (unknown !== undefined || types.length === 0)
    throw refuse(pointerTo(at, "type"), `${JSON.stringify(unknown)} is not a type. Use one of ${TYPES.join(", ")}`);
  return types as Type[];
}

function isOf(value: unknown, type: Type): boolean {
  if (value === null) return type === "null";
  if (Array.isArray(value)) return type === "array";
  if (typeof value === "number") return type === "number" || (type === "integer" && Number.isInteger(value));
  return typeof value === type;
}

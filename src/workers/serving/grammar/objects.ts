/** Grammar rules for objects and arrays. Properties come in the order of the schema. */

import { jsonPointer } from "../../../lib/json/pointer.ts";
import { invert, plainClass } from "./char_sets.ts";
import { isSchema, refuse, type Schema } from "./merge.ts";
import { literal, type Rules } from "./rules.ts";

const ENDLESS = 1_000_000; // more items than any context holds
const MAX_NAME = 256; // limit with additional properties: their names are distinguished from these letter by letter
const MAX_NAMES = 20_000;

/** Turns a subschema at a JSON pointer into the name of its rule. */
export type Visit = (schema: unknown, at: string) => string;
export type RuleContext = { rules: Rules; visit: Visit; at: string };

export const pointerTo = (at: string, ...keys: string[]) => at + jsonPointer(keys);

export function objectRule(schema: Schema, { rules, visit, at }: RuleContext): string {
  const properties = isSchema(schema["properties"]) ? schema["properties"] : {};
  const names = Object.keys(properties);
  const required = new Set(Array.isArray(schema["required"]) ? (schema["required"] as string[]) : []);
  const rest = restOf(schema, names);
  for (const name of required) {
    if (Object.hasOwn(properties, name)) continue;
    if (rest === false)
      throw refuse(pointerTo(at, "required"), `${name} is required but missing from properties. Add it to properties`);
    names.push(name);
  }
  const further = rest === false ? undefined : furtherMember(names, { rules, visit, at }, rest);
  checkCounts(schema, { named: names.length, required: required.size, open: further !== undefined }, at);

  // build from the last property to the first: `first` is used if none was written before, `next` if one was
  let first = further ? rules.define(`${further} ("," ws ${further})* ws "}" | "}"`) : '"}"';
  let next = further ? rules.define(`("," ws ${further})* ws "}"`) : 'ws "}"';
  for (const name of names.reverse()) {
    const schemaOf = Object.hasOwn(properties, name) ? properties[name] : rest;
    const value = visit(schemaOf, pointerTo(at, "properties", name));
    const member = rules.define(`${literal(JSON.stringify(name))} ":" " "? ${value}`);
    const skip = required.has(name) ? ["", ""] : [` | ${first}`, ` | ${next}`];
    const [whenFirst, whenNext] = [`${member} ${next}${skip[0]}`, `"," ws ${member} ${next}${skip[1]}`];
    first = rules.define(whenFirst);
    next = rules.define(whenNext);
  }
  return rules.define(`"{" ws ${first}`);
}

/** If the schema does not mention additional properties, there are none, unless it names no property at all. */
function restOf(schema: Schema, names: readonly string[]): unknown {
  const additional = schema["additionalProperties"];
  if (additional !== undefined) return additional;
  return names.length === 0 && schema["properties"] === undefined;
}

function checkCounts(schema: Schema, have: { named: number; required: number; open: boolean }, at: string) {
  const { minProperties: min, maxProperties: max } = schema;
  if (typeof min === "number" && min > have.required)
    throw refuse(pointerTo(at, "minProperties"), "is not supported above the number of required properties");
  if (typeof max === "number" && (have.open || max < have.named))
    throw refuse(pointerTo(at, "maxProperties"), "is not supported below the number of properties");
}

function furtherMember(names: readonly string[], { rules, visit, at }: RuleContext, rest: unknown): string {
  if (names.some((name) => name.length > MAX_NAME) || names.join("").length > MAX_NAMES)
    throw refuse(pointerTo(at, "additionalProperties"), "must be false with so many or such long property names");
  const value = visit(rest, pointerTo(at, "additionalProperties"));
  return rules.define(`"\\"" ${otherThan(names, rules)} ":" " "? ${value}`);
}

/**
 * The rest of a key, quote included, that equals none of the names. Plain characters only: an escape could spell a
 * name.
 */
function otherThan(names: readonly string[], rules: Rules): string {
  const plain = (except: readonly string[]) =>
    plainClass(invert(except.map((char) => [char.codePointAt(0) as number, char.codePointAt(0) as number])));
  const anything = rules.define(`${plain([])}* "\\""`);
  const build = (suffixes: readonly string[][]): string => {
    const here = suffixes.some((suffix) => suffix.length === 0);
    const heads = [...new Set(suffixes.flatMap((suffix) => suffix.slice(0, 1)))];
    const parts = here ? [] : ['"\\""'];
    parts.push(`${plain(heads)} ${anything}`);
    for (const head of heads.filter((c) => !/["\\\p{Cc}]/u.test(c))) {
      const below = suffixes.filter((suffix) => suffix[0] === head).map((suffix) => suffix.slice(1));
      parts.push(`${literal(head)} ${build(below)}`);
    }
    return rules.define(parts.join(" | "));
  };
  return build(names.map((name) => [...name]));
}

export function arrayRule(schema: Schema, { rules, visit, at }: RuleContext): string {
  const tuple = Array.isArray(schema["items"]) ? schema["items"] : schema["prefixItems"];
  const prefix = Array.isArray(tuple) ? tuple : [];
  const key = Array.isArray(schema["items"]) ? "additionalItems" : "items";
  const rest = schema[key] ?? true;
  const min = typeof schema["minItems"] === "number" ? schema["minItems"] : 0;
  const limit = typeof schema["maxItems"] === "number" ? schema["maxItems"] : Number.POSITIVE_INFINITY;
  const max = limit > ENDLESS ? Number.POSITIVE_INFINITY : limit;
  const most = rest === false ? Math.min(max, prefix.length) : max;
  if (min > most) throw refuse(pointerTo(at, "minItems"), `no array has at least ${min} and at most ${most} items`);

  const tupleKey = key === "items" ? "prefixItems" : "items";
  const items = prefix.slice(0, most).map((item, i) => visit(item, pointerTo(at, tupleKey, String(i))));
  let tail = 'ws "]"';
  if (most > items.length) {
    const item = visit(rest, pointerTo(at, key));
    const another = rules.define(`"," ws ${item}`);
    const more = (from: number) => rules.repeat(another, Math.max(min - from, 0), most - from);
    if (items.length === 0) {
      const full = `${item} ${more(1)} ws "]"`;
      return rules.define(`"[" ws (${most === 0 ? "" : full}${min === 0 ? ' | "]"' : ""})`);
    }
    tail = `${more(items.length)} ws "]"`;
  }
  for (let i = items.length - 1; i >= 0; i--) {
    const here = `${i === 0 ? "" : '"," ws '}${items[i]} ${tail}`;
    const end = i === 0 ? '"]"' : 'ws "]"';
    tail = rules.define(i >= min ? `${here} | ${end}` : here);
  }
  return rules.define(items.length === 0 ? '"[" ws "]"' : `"[" ws ${tail}`);
}

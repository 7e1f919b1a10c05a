/**
 * A GBNF grammar under construction, with the rules of JSON itself. Whitespace is bounded everywhere: a model that may
 * write it endlessly does.
 */

import { hex, LAST, plainClass } from "./char_sets.ts";

/** llama.cpp rejects more repetitions than this. */
export const MAX_REPEAT = 2_000;
const BLOCK = 1_000;

const JSON_RULES: Record<string, string> = {
  ws: '(" " | "\\n" [ \\t]{0,20})?',
  hex: "[0-9a-fA-F]",
  // no halves of surrogate pairs: one character must count as one
  escape: '"\\\\" (["\\\\/bfnrt] | "u" ([0-9a-cA-CeEfF] hex hex hex | [dD] [0-7] hex hex))',
  char: `${plainClass([[0, LAST]])} | escape`,
  string: '"\\"" char* "\\""',
  integer: '"-"? ("0" | [1-9] [0-9]{0,15})',
  number: '"-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?', // an exponent must not overflow
  boolean: '"true" | "false"',
  null: '"null"',
  member: 'string ":" " "? value',
  object: '"{" ws (member ("," ws member)* ws)? "}"',
  array: '"[" ws (value ("," ws value)* ws)? "]"',
  value: "object | array | string | number | boolean | null",
};

/** llama.cpp reads a grammar of this weight in about 0.1 s. No stream continues during that time. */
export const MAX_WEIGHT = 100_000;

export type Rules = {
  /** The cost of reading the grammar so far. */
  weight: () => number;
  /** Returns the name of a rule with this body; equal bodies share one rule. */
  define: (body: string) => string;
  /** Reserves a name before its body is known, for recursive rules. */
  reserve: () => { name: string; is: (body: string) => void };
  /** `rule` between `min` and `max` times. */
  repeat: (rule: string, min: number, max: number) => string;
  toGrammar: (root: string) => string;
};

export function createRules(): Rules {
  const bodies = new Map<string, string>();
  const names = new Map<string, string>();
  let count = 0;
  let weight = 0;
  const reserve = () => {
    const name = `r${++count}`;
    const is = (body: string) => {
      weight += weightOf(body);
      bodies.set(name, body);
    };
    return { name, is };
  };
  const define = (body: string) => {
    const rule = names.get(body);
    if (rule) return rule;
    const { name, is } = reserve();
    is(body);
    names.set(body, name);
    return name;
  };
  return {
    weight: () => weight,
    define,
    reserve,
    repeat(rule, min, max) {
      if (max === 0) return "";
      if (max === Number.POSITIVE_INFINITY) return min === 0 ? `${rule}*` : `${exactly(define, rule, min)} ${rule}*`;
      if (max <= MAX_REPEAT) return `${rule}{${min},${max}}`;
      return `${exactly(define, rule, min)} ${define(atMost(define, rule, max - min))}`;
    },
    toGrammar(root) {
      const lines = [`root ::= ${root}`];
      for (const [name, body] of bodies) lines.push(`${name} ::= ${body}`);
      for (const [name, body] of Object.entries(JSON_RULES)) lines.push(`${name} ::= ${body}`);
      return `${lines.join("\n")}\n`;
    },
  };
}

/** The reader expands repetitions, and its time grows with the square of the alternatives of one rule. */
function weightOf(body: string): number {
  let weight = body.length / 20;
  for (const [, least, most] of body.matchAll(/\{(\d+)(?:,(\d+))?\}/g))
    weight += Math.min(Number(most ?? least), MAX_REPEAT);
  const alternatives = body.split(" | ").length;
  return weight + (alternatives * alternatives) / 500;
}

type Define = (body: string) => string;

function exactly(define: Define, rule: string, times: number): string {
  if (times === 0) return "";
  if (times <= BLOCK) return `${rule}{${times}}`;
  const rest = times % BLOCK;
  return `${define(`${rule}{${BLOCK}}`)}{${Math.floor(times / BLOCK)}}${rest ? ` ${rule}{${rest}}` : ""}`;
}

/** Whole blocks and a remainder: only two readings are open at any character, even for a large number. */
function atMost(define: Define, rule: string, times: number): string {
  if (times <= BLOCK) return `${rule}{0,${times}}`;
  const block = define(`${rule}{${BLOCK}}`);
  const whole = Math.floor(times / BLOCK);
  return `${block}{0,${whole - 1}} ${rule}{0,${BLOCK - 1}} | ${block}{${whole}} ${rule}{0,${times % BLOCK}}`;
}

/** A terminal that matches exactly this text. */
export function literal(text: string): string {
  let out = "";
  for (const char of text) {
    const code = char.codePointAt(0) as number;
    if (char === '"' || char === "\\") out += `\\${char}`;
    else if (code < 0x20 || code === 0x7f) out += `\\x${hex(code, 2)}`;
    else out += char;
  }
  return `"${out}"`;
}

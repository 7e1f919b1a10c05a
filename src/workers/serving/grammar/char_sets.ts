/**
 * Sets of characters. They always list what they contain: llama.cpp's negated class also matches invalid characters.
 */
export type Range = readonly [from: number, to: number];
export const LAST = 0x10ffff;

/** Characters that JSON writes with a backslash, and halves of surrogate pairs. */
const NOT_PLAIN: Range[] = [
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
  [0x7f, 0x7f],
  [0xd800, 0xdfff],
];

export const hex = (code: number, width: number) => code.toString(16).padStart(width, "0");

export function normal(ranges: readonly Range[]): Range[] {
  const sorted = [...ranges].sort((a, b) => a[0] - b[0]);
  const out: [number, number][] = [];
  for (const [from, to] of sorted) {
    const last = out.at(-1);
    if (last && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else out.push([from, to]);
  }
  return out;
}

export function invert(ranges: readonly Range[]): Range[] {
  const out: Range[] = [];
  let next = 0;
  for (const [from, to] of normal(ranges)) {
    if (from > next) out.push([next, from - 1]);
    next = to + 1;
  }
  if (next <= LAST) out.push([next, LAST]);
  return out;
}

/** One character of a class, escaped so that none is special. */
const classChar = (code: number) => {
  if ((code >= 0x30 && code <= 0x39) || (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a))
    return String.fromCharCode(code);
  if (code <= 0xff) return `\\x${hex(code, 2)}`;
  return code <= 0xffff ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
};

/** A class of the set's characters that need no escape in a JSON string, if there are any. */
export function plainClass(set: readonly Range[]): string | undefined {
  return classOf(invert(normal([...invert(set), ...NOT_PLAIN])));
}

const SURROGATES: Range[] = [[0xd800, 0xdfff]];

/** A class of the set's characters, if there are any. */
export const characterClass = (set: readonly Range[]): string | undefined =>
  classOf(invert(normal([...invert(set), ...SURROGATES])));

/** Characters that no text has. */
const NOT_TEXT: Range[] = [
  [0, 0x08],
  [0x0b, 0x0c],
  [0x0e, 0x1f],
  [0x7f, 0x7f],
  [0xd800, 0xdfff],
];

/** A class of the characters of any text without these. */
export const textClass = (without: readonly string[]): string => {
  const codes = without.map((char) => char.codePointAt(0) as number);
  return classOf(invert(normal([...NOT_TEXT, ...codes.map((code): Range => [code, code])]))) ?? "[]";
};

function classOf(set: readonly Range[]): string | undefined {
  if (set.length === 0) return undefined;
  return `[${set.map(([from, to]) => (from === to ? classChar(from) : `${classChar(from)}-${classChar(to)}`)).join("")}]`;
}

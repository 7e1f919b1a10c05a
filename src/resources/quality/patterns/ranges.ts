/** Sets of characters: the classes of patterns, what they leave out, and letters in the other case. */

/** Both ends are included. */
export type Ranges = readonly (readonly [low: number, high: number])[];

const LAST = 0x10ffff;

export const DIGIT: Ranges = [[48, 57]];
export const WORD: Ranges = [
  [48, 57],
  [65, 90],
  [95, 95],
  [97, 122],
];
/** `\s` of JavaScript. */
export const SPACE: Ranges = [
  [9, 13],
  [32, 32],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
/** Without the spaces of special width. */
export const COMMON_SPACE: Ranges = [
  [9, 13],
  [32, 32],
  [0xa0, 0xa0],
  [0x2028, 0x2029],
  [0xfeff, 0xfeff],
];
export const LINE_END: Ranges = [
  [10, 10],
  [13, 13],
  [0x2028, 0x2029],
];

export function complement(ranges: Ranges): Ranges {
  const left: [number, number][] = [];
  let from = 0;
  for (const [low, high] of ranges.toSorted((a, b) => a[0] - b[0])) {
    if (low > from) left.push([from, low - 1]);
    from = Math.max(from, high + 1);
  }
  if (from <= LAST) left.push([from, LAST]);
  return left;
}

/** Adds the other case of the letters a to z. */
export function withAsciiCases(ranges: Ranges): Ranges {
  const added: [number, number][] = [];
  for (const [low, high] of ranges)
    for (const [from, to, shift] of [
      [97, 122, -32],
      [65, 90, 32],
    ] as const)
      if (low <= to && high >= from) added.push([Math.max(low, from) + shift, Math.min(high, to) + shift]);
  return [...ranges, ...added];
}

/** Adds every character whose upper or lower case begins with a character of the ranges. */
export function withAllCases(ranges: Ranges): Ranges {
  const cases = casesOf();
  const added: [number, number][] = [];
  const add = (characters: readonly number[] = []) => {
    for (const character of characters) added.push([character, character]);
  };
  for (const [low, high] of ranges)
    if (high - low < cases.size) for (let other = low; other <= high; other++) add(cases.get(other));
    else for (const [other, characters] of cases) if (low <= other && other <= high) add(characters);
  return [...ranges, ...added];
}

const CASED_END = 0x20000; // no character above has two cases
let cases: ReadonlyMap<number, readonly number[]> | undefined;

/** A character → those whose upper or lower case begins with it. */
function casesOf(): ReadonlyMap<number, readonly number[]> {
  if (cases) return cases;
  const table = new Map<number, number[]>();
  for (let from = 0; from < CASED_END; from += 4_096) {
    const block = String.fromCodePoint(...Array.from({ length: 4_096 }, (_, i) => from + i));
    for (const [character] of block.matchAll(/\p{Changes_When_Casemapped}/gu))
      for (const other of new Set([character.toLowerCase().codePointAt(0)!, character.toUpperCase().codePointAt(0)!])) {
        const characters = table.get(other);
        if (characters) characters.push(character.codePointAt(0)!);
        else table.set(other, [character.codePointAt(0)!]);
      }
  }
  cases = table;
  return table;
}

/**
 * Maps locations in stripped code to the user's text. The transpiler prints the code again without positions, but its
 * output is the user's tokens without the types, so both token sequences are aligned. For code that it generates
 * (enums, namespaces, parameter properties) the result is the location of the token before.
 */
export type Location = { line: number; column: number };

type Token = { text: string; at: number };
type Pair = { from: number; to: number };

const TOKEN =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|[\p{L}_$][\p{L}\p{N}_$]*|\d[\w.]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[^\s]/gu;
const MOST_TOKENS = 20_000;
const MOST_CELLS = 1 << 24;

/** Returns null for a location too far down a long text. */
export function alignment(code: string, source: string): (place: Location) => Location | null {
  let aligned: { pairs: Pair[]; end: number } | undefined; // made on the first error
  const lines = lineStarts(code);
  const sourceLines = lineStarts(source);
  return (place) => {
    aligned ??= align(tokens(code), tokens(source));
    const { pairs, end } = aligned;
    const offset = (lines[place.line - 1] ?? 0) + place.column - 1;
    const pair = pairs[lastAtOrBefore(pairs, offset)];
    return pair === undefined || offset >= end ? null : placeAt(sourceLines, pair.to);
  };
}

function tokens(text: string): Token[] {
  const list: Token[] = [];
  for (const match of text.matchAll(TOKEN)) {
    const [token] = match;
    if (token.startsWith("//") || token.startsWith("/*")) continue;
    list.push({ text: /^["'`]/.test(token) ? token.replace(/["'`]/g, '"') : token, at: match.index });
    if (list.length > MOST_TOKENS) break;
  }
  return list;
}

/** A longest common subsequence. For texts that are too long, only the beginning, up to `end`. */
function align(code: Token[], source: Token[]): { pairs: Pair[]; end: number } {
  const width = Math.min(source.length, MOST_TOKENS);
  const height = Math.min(code.length, Math.floor(MOST_CELLS / (width + 1)));
  const ways = new Uint8Array((height + 1) * (width + 1)); // 0: skip a token of the source, 1: of the code, 2: of both
  let below = new Uint32Array(width + 1);
  for (let i = height - 1; i >= 0; i--) {
    const lengths = new Uint32Array(width + 1);
    for (let j = width - 1; j >= 0; j--) {
      const both = code[i]!.text === source[j]!.text ? below[j + 1]! + 1 : 0;
      const best = Math.max(both, below[j]!, lengths[j + 1]!);
      lengths[j] = best;
      ways[i * (width + 1) + j] = best === both && both > 0 ? 2 : best === lengths[j + 1]! ? 0 : 1;
    }
    below = lengths;
  }
  const pairs: Pair[] = [];
  for (let i = 0, j = 0; i < height && j < width; ) {
    const way = ways[i * (width + 1) + j];
    if (way === 2) pairs.push({ from: code[i]!.at, to: source[j]!.at });
    if (way !== 0) i++;
    if (way !== 1) j++;
  }
  return { pairs, end: source.length > width ? 0 : (code[height]?.at ?? Number.POSITIVE_INFINITY) };
}

function lastAtOrBefore(pairs: { from: number }[], offset: number): number {
  let low = 0;
  let high = pairs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (pairs[middle]!.from <= offset) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return starts;
}

function placeAt(starts: number[], offset: number): Location {
  let line = 0;
  let high = starts.length;
  while (line + 1 < high) {
    const middle = (line + high) >> 1;
    if (starts[middle]! <= offset) line = middle;
    else high = middle;
  }
  return { line: line + 1, column: offset - starts[line]! + 1 };
}

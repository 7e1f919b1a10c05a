/**
 * Where a place of the stripped code is in the user's text. The transpiler prints anew and tells no positions, but what
 * it prints is the user's tokens without the types: the two sequences are laid beside each other. Approximate where it
 * writes something of its own (enums, namespaces, parameter properties): then it is the place of the token before.
 */
export type Place = { line: number; column: number };

type Token = { text: string; at: number };

const TOKEN =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|[\p{L}_$][\p{L}\p{N}_$]*|\d[\w.]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[^\s]/gu;
const MOST_TOKENS = 200_000;
const LOOKAHEAD = 4000; // tokens of the user's text that types may take up in one place
const CONTEXT = 3; // tokens that must agree before a gap is believed

export function alignment(code: string, source: string): (place: Place) => Place {
  let pairs: { from: number; to: number }[] | undefined; // made when the first error asks
  const lines = lineStarts(code);
  const sourceLines = lineStarts(source);
  return (place) => {
    pairs ??= align(tokens(code), tokens(source));
    const offset = (lines[place.line - 1] ?? 0) + place.column - 1;
    const found = pairs[lastAtOrBefore(pairs, offset)];
    return found === undefined ? { line: 1, column: 1 } : placeAt(sourceLines, found.to);
  };
}

function tokens(text: string): Token[] {
  const found: Token[] = [];
  for (const match of text.matchAll(TOKEN)) {
    const [token] = match;
    if (token.startsWith("//") || token.startsWith("/*")) continue;
    found.push({ text: /^["'`]/.test(token) ? token.replace(/["'`]/g, '"') : token, at: match.index });
    if (found.length >= MOST_TOKENS) break;
  }
  return found;
}

function align(code: Token[], source: Token[]): { from: number; to: number }[] {
  const pairs: { from: number; to: number }[] = [];
  let next = 0;
  for (let i = 0; i < code.length; i++) {
    const to = agrees(code, i, source, next) ? next : search(code, i, source, next + 1);
    if (to === -1) continue; // the transpiler's own
    pairs.push({ from: code[i]!.at, to: source[to]!.at });
    next = to + 1;
  }
  return pairs;
}

/** The token itself where nothing was skipped; with those that follow where something was. */
const agrees = (code: Token[], i: number, source: Token[], j: number): boolean => code[i]?.text === source[j]?.text;

function search(code: Token[], i: number, source: Token[], from: number): number {
  const end = Math.min(source.length, from + LOOKAHEAD);
  for (let j = from; j < end; j++) {
    let same = 0;
    while (same < CONTEXT && code[i + same] !== undefined && agrees(code, i + same, source, j + same)) same++;
    if (same === CONTEXT || (same > 0 && code[i + same] === undefined)) return j;
  }
  // A type may begin among the tokens that follow: the nearest one alone, if it is near.
  for (let j = from; j < Math.min(end, from + 40); j++) if (agrees(code, i, source, j)) return j;
  return -1;
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

function placeAt(starts: number[], offset: number): Place {
  let line = 0;
  let high = starts.length;
  while (line + 1 < high) {
    const middle = (line + high) >> 1;
    if (starts[middle]! <= offset) line = middle;
    else high = middle;
  }
  return { line: line + 1, column: offset - starts[line]! + 1 };
}

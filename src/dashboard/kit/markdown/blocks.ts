/**
 * The blocks of a Markdown text: paragraphs, headings, lists, quotes, code and tables. Pure, and linear in the length of
 * the text. HTML is text, like everything else that this file does not name.
 */

/** A part of a line, and its place in the text. */
export type Line = { readonly text: string; readonly from: number };
export type Lines = readonly Line[];

export type Side = "left" | "center" | "right";
type Content =
  | { readonly kind: "paragraph"; readonly lines: Lines }
  | { readonly kind: "heading"; readonly level: number; readonly lines: Lines }
  | { readonly kind: "code"; readonly language: string; readonly lines: Lines }
  | { readonly kind: "quote"; readonly blocks: readonly Block[] }
  | { readonly kind: "list"; readonly start: number | undefined; readonly items: readonly (readonly Block[])[] }
  | { readonly kind: "table"; readonly sides: readonly Side[]; readonly rows: readonly Lines[] }
  | { readonly kind: "rule" };
/** `from` and `to`: its part of the text. */
export type Block = Content & { readonly from: number; readonly to: number };

/** Deeper quotes and lists are text. */
const MOST_DEPTH = 12;

export const blocksOf = (text: string): Block[] => read(linesOf(text, 0), 0);

/**
 * The blocks of `text`, which begins with the text of `before`. More text can only change the last two blocks: the others
 * are the same objects, which a page need not draw again.
 */
export function grownBlocks(before: readonly Block[], text: string): Block[] {
  const kept = before.slice(0, -2);
  return [...kept, ...read(linesOf(text, before[kept.length]?.from ?? 0), 0)];
}

function linesOf(text: string, from: number): Line[] {
  const lines: Line[] = [];
  for (let at = from; at <= text.length; ) {
    const newline = text.indexOf("\n", at);
    const end = newline < 0 ? text.length : newline;
    const to = end > at && text[end - 1] === "\r" ? end - 1 : end;
    lines.push({ text: text.slice(at, to), from: at });
    at = end + 1;
  }
  return lines;
}

type Reading = { lines: Lines; at: number; depth: number };
type Read = { count: number; content: Content };

function read(lines: Lines, depth: number): Block[] {
  const blocks: Block[] = [];
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    if (!line || isBlank(line)) {
      at += 1;
      continue;
    }
    const { count, content } = blockAt({ lines, at, depth });
    const last = lines[at + count - 1] ?? line;
    blocks.push({ ...content, from: line.from, to: last.from + last.text.length });
    at += count;
  }
  return blocks;
}

function blockAt(reading: Reading): Read {
  const { lines, at, depth } = reading;
  const line = lines[at] ?? NO_LINE;
  if (isRule(line)) return { count: 1, content: { kind: "rule" } };
  const nested = depth < MOST_DEPTH ? (quoteAt(reading) ?? listAt(reading)) : undefined;
  return codeAt(reading) ?? headingAt(line) ?? nested ?? tableAt(reading) ?? paragraphAt(reading);
}

const NO_LINE: Line = { text: "", from: 0 };
const TAB = 4;

const isBlank = ({ text }: Line) => text.trim() === "";

/** Spaces before the text. */
function roomOf({ text }: Line): number {
  let room = 0;
  for (const char of text) {
    if (char !== " " && char !== "\t") return room;
    room += char === "\t" ? TAB : 1;
  }
  return room;
}

/** The line without its first `room` spaces. */
function cut({ text, from }: Line, room: number): Line {
  let at = 0;
  for (let cutRoom = 0; cutRoom < room && (text[at] === " " || text[at] === "\t"); at++)
    cutRoom += text[at] === "\t" ? TAB : 1;
  return { text: text.slice(at), from: from + at };
}

function isRule({ text }: Line): boolean {
  const marks = text.replaceAll(/[ \t]/g, "");
  return marks.length >= 3 && "-*_".includes(marks.charAt(0)) && isAll(marks, marks.charAt(0));
}

const isAll = (text: string, char: string) => text.split(char).length === text.length + 1;

const FENCE = /^[ \t]*(`{3,}|~{3,})([^`]*)$/;

/** Code between fences. Without its end it goes on to the end of the text, as it does while an answer is written. */
function codeAt({ lines, at }: Reading): Read | undefined {
  const first = lines[at] ?? NO_LINE;
  const [, fence = "", info = ""] = FENCE.exec(first.text) ?? [];
  if (fence === "") return undefined;
  const closes = ({ text }: Line) => {
    const marks = text.trim();
    return marks.length >= fence.length && isAll(marks, fence.charAt(0));
  };
  let end = at + 1;
  for (let line = lines[end]; line && !closes(line); line = lines[end]) end += 1;
  const inside = lines.slice(at + 1, end).map((line) => cut(line, roomOf(first)));
  const [language = ""] = info.trim().split(/\s/, 1);
  return { count: Math.min(end + 1, lines.length) - at, content: { kind: "code", language, lines: inside } };
}

const HEADING = /^ {0,3}(#{1,6})[ \t]+(?=\S)/;

function headingAt(line: Line): Read | undefined {
  const [before = "", marks = ""] = HEADING.exec(line.text) ?? [];
  if (marks === "") return undefined;
  const text = line.text.slice(before.length).trimEnd();
  const bare = text.slice(0, lastWithout(text, "#"));
  const lines = [{ text: /\s$/.test(bare) ? bare.trimEnd() : text, from: line.from + before.length }];
  return { count: 1, content: { kind: "heading", level: marks.length, lines } };
}

function lastWithout(text: string, char: string): number {
  let end = text.length;
  while (end > 0 && text[end - 1] === char) end -= 1;
  return end;
}

const QUOTE = /^[ \t]*> ?/;

function quoteAt({ lines, at, depth }: Reading): Read | undefined {
  const inside: Line[] = [];
  for (let line = lines[at]; line; line = lines[at + inside.length]) {
    const mark = QUOTE.exec(line.text)?.[0];
    if (mark === undefined) break;
    inside.push({ text: line.text.slice(mark.length), from: line.from + mark.length });
  }
  if (inside.length === 0) return undefined;
  return { count: inside.length, content: { kind: "quote", blocks: read(inside, depth + 1) } };
}

const MARKER = /^[ \t]*([-*+]|\d{1,9}[.)])(?=[ \t]|$)/;
/** Models indent parts of an item by two spaces, also where the marker is wider. */
const LEAST_INDENT = 2;

const markerOf = (line: Line | undefined): string | undefined =>
  line && !isRule(line) ? MARKER.exec(line.text)?.[1] : undefined;
/** Items of one list have the same character at the end of their markers. */
const styleOf = (marker: string | undefined) => marker?.at(-1);

function listAt(reading: Reading): Read | undefined {
  const { lines, at, depth } = reading;
  const marker = markerOf(lines[at]);
  if (marker === undefined) return undefined;
  const items: Block[][] = [];
  let end = at;
  for (let next = at; styleOf(markerOf(lines[next])) === styleOf(marker); ) {
    const item = itemAt({ ...reading, at: next });
    items.push(read(item, depth + 1));
    end = next + item.length;
    next = end;
    for (let line = lines[next]; line && isBlank(line); line = lines[next]) next += 1;
  }
  const start = /\d/.test(marker) ? Number.parseInt(marker, 10) : undefined;
  return { count: end - at, content: { kind: "list", start, items } };
}

/** The lines of one item, without its marker and its indent. */
function itemAt({ lines, at }: Reading): Line[] {
  const first = lines[at] ?? NO_LINE;
  const outer = roomOf(first);
  const marker = markerOf(first) ?? "";
  const begin = first.text.indexOf(marker) + marker.length;
  const rest = { text: first.text.slice(begin), from: first.from + begin };
  const spaces = roomOf(rest);
  const indent = outer + marker.length + (isBlank(rest) || spaces > TAB ? 1 : spaces);
  const item = [cut(rest, indent - outer - marker.length)];
  let count = 1; // up to the last line that is not blank
  for (let line = lines[at + item.length]; line; line = lines[at + item.length]) {
    const isNext = item.length === count;
    const room = roomOf(line);
    if (isBlank(line)) item.push({ text: "", from: line.from });
    else if (room >= outer + Math.min(indent - outer, LEAST_INDENT)) item.push(cut(line, indent));
    else if (isNext && !isBlank(item.at(-1) ?? NO_LINE) && !markerOf(line) && !beginsBlock(line))
      item.push(cut(line, room));
    else break;
    if (!isBlank(line)) count = item.length;
  }
  return item.slice(0, count);
}

/** True if the line ends a paragraph above it. A number does so only if it begins a list. */
function beginsBlock(line: Line): boolean {
  const { text } = line;
  if (isRule(line) || FENCE.test(text) || HEADING.test(text) || QUOTE.test(text)) return true;
  const marker = markerOf(line);
  return marker !== undefined && text.trim().length > marker.length && (!/\d/.test(marker) || /^1[.)]$/.test(marker));
}

/** The cells between the bars of a line. A bar after a backslash is text. */
function cellsOf({ text, from }: Line): Line[] {
  const cells: Line[] = [];
  let begin = roomEnd(text);
  if (text[begin] === "|") begin += 1;
  const add = (end: number) => {
    const cell = text.slice(begin, end);
    cells.push({ text: cell.trim(), from: from + begin + (cell.length - cell.trimStart().length) });
    begin = end + 1;
  };
  for (let at = begin; at < text.length; at++) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === "|") add(at);
  }
  if (text.slice(begin).trim() !== "") add(text.length);
  return cells;
}

const roomEnd = (text: string) => text.length - text.trimStart().length;
const DASHES = /^(:?)-+(:?)$/;

function sidesOf(line: Line | undefined): Side[] | undefined {
  if (!line?.text.includes("-") || !line.text.includes("|")) return undefined;
  const cells = cellsOf(line).map(({ text }) => DASHES.exec(text));
  if (cells.length === 0 || cells.includes(null)) return undefined;
  return cells.map((cell) => (cell?.[2] ? (cell[1] ? "center" : "right") : "left"));
}

function tableAt({ lines, at }: Reading): Read | undefined {
  const head = lines[at] ?? NO_LINE;
  if (!head.text.includes("|")) return undefined;
  const sides = sidesOf(lines[at + 1]);
  if (!sides || cellsOf(head).length !== sides.length) return undefined;
  const rows = [cellsOf(head)];
  let end = at + 2;
  for (let line = lines[end]; line?.text.includes("|"); line = lines[end]) {
    const cells = cellsOf(line);
    rows.push([...cells, ...sides.slice(cells.length).map(() => NO_LINE)]);
    end += 1;
  }
  return { count: end - at, content: { kind: "table", sides, rows } };
}

function paragraphAt({ lines, at, depth }: Reading): Read {
  let end = at + 1;
  for (let line = lines[end]; line && !isBlank(line); line = lines[end]) {
    if (beginsBlock(line) || tableAt({ lines, at: end, depth })) break;
    end += 1;
  }
  return { count: end - at, content: { kind: "paragraph", lines: lines.slice(at, end) } };
}

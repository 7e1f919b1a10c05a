/**
 * The parts of lines of Markdown: strong, emphasised and struck text, code and links. Pure. Every part of text has its
 * place in the whole text, so that a page can colour it by token. The work for each character is bounded.
 */
import type { Lines } from "./blocks.ts";

export type Inline =
  | { readonly kind: "text"; readonly from: number; readonly to: number }
  | { readonly kind: "newline" }
  | { readonly kind: "code" | "strong" | "em" | "del"; readonly parts: readonly Inline[] }
  | { readonly kind: "link"; readonly href: string; readonly parts: readonly Inline[] };

export const inlinesOf = (lines: Lines): Inline[] => new Reader(lines).read();

/** An opened mark and what stands after it. `isDead`: the mark is text. */
type Frame = { mark: string; at: number; parts: Inline[]; isDead: boolean };

/** More marks that wait for their end are text. */
const MOST_OPEN = 64;
const LONGEST_TARGET = 2_000; // characters of an address and its title
const LONGEST_RUN = 3;
const KINDS: Readonly<Record<string, "strong" | "em" | "del">> = {
  "**": "strong",
  __: "strong",
  "*": "em",
  _: "em",
  "~~": "del",
};

const PUNCTUATION = /[!-/:-@[-`{-~]/;
const isSpace = (char: string) => char === "" || /\s/.test(char);
const isMark = (char: string) => /[\p{P}\p{S}]/u.test(char);

class Reader {
  private readonly text: string;
  private readonly stack: Frame[] = [{ mark: "", at: 0, parts: [], isDead: true }];
  /** Places of the runs of backticks, by their length. */
  private readonly ticks = new Map<number, number[]>();
  private readonly lastTarget: number;
  private at = 0;
  /** Text before it is in a part. */
  private done = 0;

  constructor(private readonly lines: Lines) {
    this.text = lines.map(({ text }) => text).join("\n");
    this.lastTarget = this.text.lastIndexOf("](");
    for (const { 0: run, index } of this.text.matchAll(/`+/g)) {
      const same = this.ticks.get(run.length) ?? [];
      same.push(index);
      this.ticks.set(run.length, same);
    }
  }

  read(): Inline[] {
    while (this.at < this.text.length) this.step(this.text.charAt(this.at));
    this.flush(this.text.length);
    this.close(0);
    return this.stack[0]?.parts ?? [];
  }

  private step(char: string) {
    if (char === "\\" && PUNCTUATION.test(this.text.charAt(this.at + 1))) return this.escape();
    if (char === "`") return this.code();
    if (char === "*" || char === "_" || char === "~") return this.emphasis(char);
    if (char === "[") return this.open("[", this.at);
    if (char === "!" && this.text[this.at + 1] === "[") return this.open("![", this.at);
    if (char === "]") return this.link();
    if ((char === "<" || char === "h") && this.address(char)) return;
    this.at += 1;
  }

  private get top(): Frame {
    return this.stack.at(-1) as Frame;
  }

  /** Makes the text up to `to` a part. */
  private flush(to: number) {
    this.push(this.top.parts, this.done, to);
    this.done = Math.max(this.done, to);
  }

  private push(parts: Inline[], from: number, to: number) {
    for (let at = from; at < to; ) {
      const newline = this.text.indexOf("\n", at);
      const end = newline < 0 || newline > to ? to : newline;
      if (end > at) parts.push({ kind: "text", from: this.place(at), to: this.place(at) + end - at });
      if (end < to) parts.push({ kind: "newline" });
      at = end + 1;
    }
  }

  private line = 0; // the line of the last place
  private lineAt = 0;

  /** The place in the whole text. Places come in order, but for those of marks that turn out to be text. */
  private place(at: number): number {
    if (at < this.lineAt) [this.line, this.lineAt] = [0, 0];
    for (let line = this.lines[this.line]; line && at > this.lineAt + line.text.length; line = this.lines[this.line]) {
      this.lineAt += line.text.length + 1;
      this.line += 1;
    }
    return (this.lines[this.line]?.from ?? 0) + at - this.lineAt;
  }

  private escape() {
    this.flush(this.at);
    this.done = this.at + 1;
    this.at += 2;
  }

  private runOf(char: string): number {
    let end = this.at;
    while (this.text[end] === char) end += 1;
    return end - this.at;
  }

  private code() {
    const run = this.runOf("`");
    const same = this.ticks.get(run) ?? [];
    while ((same[0] ?? this.text.length) <= this.at) same.shift();
    const [end] = same;
    if (end !== undefined) {
      this.flush(this.at);
      const inside = this.text.slice(this.at + run, end);
      const isPadded = /^ .* $/s.test(inside) && inside.trim() !== "" ? 1 : 0;
      const parts: Inline[] = [];
      this.push(parts, this.at + run + isPadded, end - isPadded);
      this.top.parts.push({ kind: "code", parts });
      this.done = end + run;
    }
    this.at = end === undefined ? this.at + run : end + run;
  }

  private open(mark: string, at: number) {
    if (this.stack.length <= MOST_OPEN) {
      this.flush(at);
      this.stack.push({ mark, at, parts: [], isDead: false });
      this.done = at + mark.length;
    }
    this.at = at + mark.length;
  }

  /** Frames above `index` that did not end are text. */
  private close(index: number) {
    while (this.stack.length - 1 > index) {
      const { mark, at, parts } = this.stack.pop() as Frame;
      this.push(this.top.parts, at, at + mark.length);
      for (const part of parts) this.top.parts.push(part);
    }
  }

  private emphasis(char: string) {
    const run = this.runOf(char);
    const [before, after] = [this.text.charAt(this.at - 1), this.text.charAt(this.at + run)];
    if (run > LONGEST_RUN || (char === "~" && run !== 2)) {
      this.at += run;
      return;
    }
    const isLeft = !isSpace(after) && (!isMark(after) || isSpace(before) || isMark(before));
    const isRight = !isSpace(before) && (!isMark(before) || isSpace(after) || isMark(after));
    const isWord = char === "_";
    const canOpen = isLeft && (!isWord || !isRight || isMark(before));
    const canClose = isRight && (!isWord || !isLeft || isMark(after));
    const end = this.at + run;
    while (canClose && this.at < end && this.closeMark(char, end - this.at));
    while (canOpen && this.at < end) this.open(char.repeat(Math.min(2, end - this.at)), this.at);
    this.at = end;
  }

  /** Ends the innermost emphasis that this mark can end. False: there is none. */
  private closeMark(char: string, most: number): boolean {
    let index = this.stack.length - 1;
    for (; index > 0; index--) {
      const { mark, isDead } = this.stack[index] as Frame;
      if (mark.startsWith(char) && mark.length <= most) break;
      if (mark.endsWith("[") && !isDead && this.lastTarget > this.at) return false; // a link holds together
    }
    const frame = this.stack[index];
    const kind = KINDS[frame?.mark ?? ""];
    if (index === 0 || !frame || !kind) return false;
    this.flush(this.at);
    this.close(index);
    this.stack.pop();
    this.top.parts.push({ kind, parts: frame.parts });
    this.at += frame.mark.length;
    this.done = this.at;
    return true;
  }

  /** A picture is a link to it: nothing is loaded from other hosts. */
  private link() {
    const index = this.stack.findLastIndex(({ mark, isDead }) => mark.endsWith("[") && !isDead);
    const frame = this.stack[index];
    const target = frame && this.text[this.at + 1] === "(" ? this.target(this.at + 2) : undefined;
    if (!frame || !target) {
      if (frame) frame.isDead = true;
      this.at += 1;
      return;
    }
    this.flush(this.at);
    this.close(index);
    this.stack.pop();
    const parts = frame.parts;
    if (parts.length === 0) this.push(parts, target.from, target.to);
    this.top.parts.push({ kind: "link", href: target.href, parts });
    for (const each of this.stack) if (each.mark.endsWith("[")) each.isDead = true; // a link has no links in it
    this.at = target.end;
    this.done = this.at;
  }

  /** The address after `](`. Undefined: there is none, or none that may be opened. */
  private target(begin: number): { href: string; from: number; to: number; end: number } | undefined {
    const limit = Math.min(this.text.length, begin + LONGEST_TARGET);
    let to = begin;
    let depth = 0;
    for (; to < limit && !isSpace(this.text.charAt(to)); to++) {
      if (this.text[to] === "(") depth += 1;
      else if (this.text[to] === ")" && depth-- === 0) break;
    }
    const rest = this.text.slice(to, limit);
    const title = /^[ \t]+("[^"]*"|'[^']*')?[ \t]*(?=\))/.exec(rest)?.[0] ?? "";
    if (this.text[to + title.length] !== ")") return undefined;
    const isBracketed = this.text[begin] === "<" && this.text[to - 1] === ">" ? 1 : 0;
    const place = { from: begin + isBracketed, to: to - isBracketed };
    const href = safeAddress(this.text.slice(place.from, place.to));
    return href === undefined ? undefined : { href, ...place, end: to + title.length + 1 };
  }

  /** An address that stands alone, or between `<` and `>`. */
  private address(char: string): boolean {
    const from = char === "<" ? this.at + 1 : this.at;
    if (char === "h" && !/^https?:\/\//.test(this.text.slice(from, from + 8))) return false;
    if (char === "h" && /[\p{L}\p{N}]/u.test(this.text.charAt(from - 1))) return false;
    if (this.lastTarget > this.at && this.stack.some(({ mark, isDead }) => mark.endsWith("[") && !isDead)) return false;
    const [whole = ""] = /^[^\s<>"`|\\]*/.exec(this.text.slice(from, from + LONGEST_TARGET)) ?? [];
    const to = from + (char === "<" ? whole : withoutEnd(whole)).length;
    const href = safeAddress(this.text.slice(from, to));
    if (href === undefined || (char === "<" && this.text[to] !== ">")) return false;
    this.flush(this.at);
    const parts: Inline[] = [];
    this.push(parts, from, to);
    this.top.parts.push({ kind: "link", href, parts });
    this.at = char === "<" ? to + 1 : to;
    this.done = this.at;
    return true;
  }
}

/** The marks after an address belong to the sentence, but for a bracket that began within the address. */
function withoutEnd(address: string): string {
  let end = address.length;
  while (end > 0 && /[.,:;!?'"*_~\])]/.test(address.charAt(end - 1))) {
    if (address[end - 1] === ")" && address.slice(0, end).split("(").length >= address.slice(0, end).split(")").length)
      break;
    end -= 1;
  }
  return address.slice(0, end);
}

const SAFE = ["http:", "https:", "mailto:"];

/** The address, if it leads to a page or a mailbox. Others could run code in this page or open a program. */
export function safeAddress(text: string): string | undefined {
  try {
    const { protocol, href } = new URL(text);
    return SAFE.includes(protocol) ? href : undefined;
  } catch {
    return undefined;
  }
}

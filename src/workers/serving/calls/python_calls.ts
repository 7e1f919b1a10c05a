/**
 * The calls of LFM2: a list of calls as Python writes them, such as [add(a=1), say(text='hi')]. Pure.
 * The family does not escape quotes, so a quote ends a text only before a comma or a bracket.
 */
import { parseJson } from "./json.ts";
import type { Sink } from "./sink.ts";
import { head, literally, type Reading, type Source, skip } from "./source.ts";

const CLOSE = "<|tool_call_end|>";
const WORDS: Record<string, string> = { True: "true", False: "false", None: "null" };
const ESCAPES: Record<string, string> = { n: "\n", t: "\t", r: "\r", "\\": "\\", "'": "'", '"': '"' };
const AFTER_TEXT = String.raw`(?=\s*(?:[,)\]}:]|$))`;
const TOKEN = new RegExp(
  String.raw`'((?:\\.|[^\\])*?)'${AFTER_TEXT}|"((?:\\.|[^\\])*?)"${AFTER_TEXT}|[A-Za-z_]\w*`,
  "gs",
);

const unescaped = (text: string) => text.replace(/\\(.)/gs, (whole, char: string) => ESCAPES[char] ?? whole);

/** A value of Python as JSON. What is no value of Python is a text. */
function jsonOfPython(text: string): string {
  const json = text.replace(TOKEN, (whole, single?: string, double?: string) => {
    const quoted = single ?? double;
    if (quoted === undefined) return WORDS[whole] ?? whole;
    return JSON.stringify((double === undefined ? undefined : parseJson(whole)) ?? unescaped(quoted));
  });
  const value = parseJson(json);
  return JSON.stringify(value === undefined ? text : value);
}

/** The length of the value at the start of the text, up to a comma or a bracket. Undefined: more text decides. */
function valueLength(text: string, ended: boolean): number | undefined {
  let quote = "";
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const char = text[i] as string;
    if (quote !== "") {
      if (char === "\\") i++;
      else if (char === quote) {
        const next = /\S/.exec(text.slice(i + 1))?.[0];
        if (next === undefined && !ended) return undefined;
        if (next === undefined || /[,)\]}:]/.test(next)) quote = "";
      }
    } else if (char === "'" || char === '"') quote = char;
    else if (/[[{(]/.test(char)) depth++;
    else if (depth === 0 && /[,)]/.test(char)) return i;
    else if (/[\]})]/.test(char)) depth--;
  }
  return ended ? text.length : undefined;
}

/** Reads the calls behind their marker. Returns how many it found. */
export function* readPython(source: Source, sink: Sink): Reading<number> {
  if (!(yield* literally(source, "["))) return 0;
  for (let calls = 0; ; calls++) {
    yield* skip(source, /^[\s,]+/);
    if (calls > 0 && (yield* literally(source, "]"))) {
      yield* literally(source, CLOSE);
      source.mark();
      return calls;
    }
    const heading = yield* head(source, ["("]);
    if (!heading || !/^[\w.:-]+$/.test(heading.text)) return calls;
    sink.begin(heading.text);
    sink.pass("{");
    if (yield* readArguments(source, sink)) sink.pass("}");
    sink.end(source.sinceMark);
    source.mark();
  }
}

/** Returns false if the text ended inside the call. */
function* readArguments(source: Source, sink: Sink): Reading<boolean> {
  for (let first = true; ; first = false) {
    yield* skip(source, /^[\s,]+/);
    if (yield* literally(source, ")")) return true;
    const heading = yield* head(source, ["="]);
    if (!heading || !/^\w+$/.test(heading.text.trim())) return false;
    let length = valueLength(source.held, source.ended);
    while (length === undefined) {
      yield;
      length = valueLength(source.held, source.ended);
    }
    const isCut = length === source.held.length;
    sink.pass(
      `${first ? "" : ", "}${JSON.stringify(heading.text.trim())}: ${jsonOfPython(source.take(length).trim())}`,
    );
    if (isCut) return false;
  }
}

const spelt = (value: unknown): string =>
  typeof value === "boolean" ? (value ? "True" : "False") : value === null ? "None" : JSON.stringify(value);

/** A call as the model writes it. */
export function spellPython({ name, arguments: args }: { name: string; arguments: unknown }): string {
  const members = Object.entries((args ?? {}) as object).map(([key, value]) => `${key}=${spelt(value)}`);
  return `${name}(${members.join(", ")})`;
}

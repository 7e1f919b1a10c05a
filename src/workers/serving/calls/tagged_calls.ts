/** Calls written as tags: one for the function and one for each argument, whose value is text. Pure. */

import type { Tool } from "../../../lib/chat/messages.ts";
import { isObject } from "../../../lib/json/object.ts";
import { parseJson } from "./json.ts";
import { passText } from "./parser.ts";
import type { Sink } from "./sink.ts";
import { head, literally, type Reading, type Source, skip } from "./source.ts";

export type Tags = {
  /** Texts around all calls. Empty: none. */
  section: readonly [open: string, close: string];
  /** Texts around the name of the function, and the end of the call. */
  call: readonly [open: string, afterName: string, close: string];
  /** Texts around the name of an argument, before its value and after it. */
  argument: readonly [open: string, afterName: string, beforeValue: string, close: string];
  /** The value stands on lines of its own. */
  lines: boolean;
  /** This part is repeated for several calls. */
  many: "section" | "call";
  /** A text may stand in a CDATA section. */
  wrapped?: boolean;
};

type Types = Set<string>;

/** The types that a schema allows, as far as its own keywords say. */
function typesOf(schema: unknown): Types {
  if (!isObject(schema)) return new Set();
  const { type, enum: values, const: value, anyOf, oneOf } = schema;
  const types: Types = new Set([type].flat().filter((name) => typeof name === "string"));
  if (types.size > 0) return types;
  for (const each of Array.isArray(values) ? values : value === undefined ? [] : [value])
    types.add(each === null ? "null" : typeof each);
  for (const each of [anyOf, oneOf].flat()) for (const name of typesOf(each)) types.add(name);
  return types;
}

/** True if the value of the argument is a text whatever it looks like. */
const onlyText = (types: Types) => types.size === 1 && types.has("string");

/** The types of each argument of each function. */
export type ArgumentTypes = (name: string, argument: string) => Types;

export function argumentTypes(tools: readonly Tool[]): ArgumentTypes {
  const propertiesByTool = new Map(
    tools.map(({ function: { name, parameters } }) => [name, parameters?.["properties"]]),
  );
  return (name, argument) => {
    const properties = propertiesByTool.get(name);
    return typesOf(isObject(properties) ? properties[argument] : undefined);
  };
}

const escaped = (text: string) => JSON.stringify(text).slice(1, -1);

/** Reads a value as JSON, or as a text if it is not JSON. */
const jsonOf = (text: string) => {
  const value = parseJson(text.trim());
  return value === undefined ? JSON.stringify(text) : JSON.stringify(value);
};

type How = { tags: Tags; types: ArgumentTypes /** The marker that is consumed. */; marker: string };

/** Reads calls up to the end of their section. Returns how many there were. */
export function* readTagged(source: Source, sink: Sink, { tags, types, marker }: How): Reading<number> {
  const [open, afterName, close] = tags.call;
  const [, sectionClose] = tags.section;
  for (let calls = 0; ; calls++) {
    yield* skip(source);
    if (calls > 0 && sectionClose !== "" && (yield* literally(source, sectionClose))) {
      source.mark();
      return calls;
    }
    if (calls > 0 && sectionClose === "") return calls;
    const isOpen = calls === 0 && marker === open;
    if (!isOpen && !(yield* literally(source, open))) return calls;
    const ends = afterName === "" ? [tags.argument[0], close, "\n"] : [afterName];
    const heading = yield* head(source, ends);
    const name = heading?.text.trim() ?? "";
    if (!heading || !/^[\w.:-]+$/.test(name)) return calls;
    sink.begin(name);
    sink.pass("{");
    const begun = heading.marker === tags.argument[0];
    if (heading.marker === close || (yield* readArguments(source, sink, { tags, name, types, begun }))) sink.pass("}");
    sink.end(source.sinceMark);
    source.mark();
  }
}

type Call = { tags: Tags; name: string; types: ArgumentTypes; begun: boolean };

/** Returns false if the text ended inside an argument. */
function* readArguments(source: Source, sink: Sink, { tags, name, types, begun }: Call): Reading<boolean> {
  const [open, afterName] = tags.argument;
  for (let first = true; ; first = false) {
    if (!(begun && first)) {
      yield* skip(source);
      if ((yield* literally(source, tags.call[2])) || !(yield* literally(source, open))) return true;
    }
    const heading = yield* head(source, [afterName]);
    if (!heading) return true;
    sink.pass(`${first ? "" : ", "}${JSON.stringify(heading.text.trim())}: `);
    if (!(yield* readValue(source, sink, tags, types(name, heading.text.trim())))) return false;
  }
}

function* readValue(source: Source, sink: Sink, tags: Tags, types: Types): Reading<boolean> {
  const [, , beforeValue, close] = tags.argument;
  let text: boolean = onlyText(types);
  if (beforeValue.startsWith(" string=")) {
    const attribute = yield* head(source, [">"]);
    text = attribute?.text.includes("true") ?? text;
  } else if (beforeValue !== "") {
    yield* skip(source);
    yield* literally(source, beforeValue);
  }
  if (tags.lines) yield* literally(source, "\n");
  const isWrapped = tags.wrapped === true && (yield* literally(source, "<![CDATA["));
  if (isWrapped) text = true;
  const ends = isWrapped ? [`]]>${close}`] : tags.lines ? [`\n${close}`, close] : [close];
  let value = "";
  if (text) sink.pass('"');
  const pass = (piece: string) => {
    if (text) sink.pass(escaped(piece));
    else value += piece;
  };
  const end = yield* passText(source, pass, ends);
  if (end === undefined) return false;
  source.take(end.length);
  sink.pass(text ? '"' : jsonOf(value));
  return true;
}

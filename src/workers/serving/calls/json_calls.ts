/** Calls written as JSON objects with the name of the function inside, alone or in a list. Pure. */
import { isObject } from "../../../lib/json/object.ts";
import { createJsonScan, objectLength, parseJson } from "./json.ts";
import type { ParsedCall, Sink } from "./sink.ts";
import { literally, type Reading, type Source, skip } from "./source.ts";

const OTHER = '(?:"(?:id|tool_call_id|type|index)"\\s*:\\s*(?:"[^"\\\\]*"|\\d+)\\s*,\\s*)*';
/** The text of a call up to its arguments, which must be an object. */
const CALL_HEAD = new RegExp(
  `^\\{\\s*${OTHER}"(?:name|tool_name)"\\s*:\\s*"([^"\\\\]+)"\\s*,\\s*${OTHER}"(?:arguments|parameters)"\\s*:\\s*(?=\\{)`,
);
/** The name of the function is the only key of the object. */
const KEY_HEAD = /^\{\s*"([^"\\]+)"\s*:\s*(?=\{)/;

export type JsonCalls = {
  /** Absent: the calls may stand in any order of keys, with the usual names of the keys. */
  keyed?: boolean;
  /** Only these functions are calls. */
  names?: readonly string[];
};

/** Reads the value as a call: its name, and its arguments as an object or as JSON text. */
function toCall(value: unknown): ParsedCall | undefined {
  if (!isObject(value)) return undefined;
  const { name = value["tool_name"], arguments: argumentsField, parameters, function: inner } = value;
  if (name === undefined && isObject(inner)) return toCall(inner);
  const args = argumentsField ?? parameters ?? {};
  if (typeof name !== "string" || name === "") return undefined;
  if (typeof args === "string") return isObject(parseJson(args)) ? { name, arguments: args } : undefined;
  return isObject(args) ? { name, arguments: JSON.stringify(args) } : undefined;
}

/** Passes the object that comes next on as the arguments of the call. */
export function* passObject(source: Source, sink: Sink): Reading<boolean> {
  const scan = createJsonScan();
  while (true) {
    sink.pass(source.take(scan.next(source.held)));
    if (scan.done) return true;
    if (source.ended) return false;
    yield;
  }
}

/** Reads one object. Returns false, with nothing passed on, if it is not a call. */
export function* readObject(source: Source, sink: Sink, { keyed, names }: JsonCalls = {}): Reading<boolean> {
  const isTool = (name: string) => names === undefined || names.includes(name);
  while (true) {
    const match = (keyed ? KEY_HEAD : CALL_HEAD).exec(source.held);
    if (match) {
      const [text, name = ""] = match;
      if (!isTool(name)) return false;
      source.take(text.length);
      sink.begin(name);
      if (yield* passObject(source, sink)) yield* restOfObject(source);
      sink.end(source.sinceMark);
      source.mark();
      return true;
    }
    const length = objectLength(source.held);
    if (length !== undefined) {
      const call = toCall(parseJson(source.held.slice(0, length)));
      if (!call || !isTool(call.name)) return false;
      source.take(length);
      sink.begin(call.name);
      sink.pass(call.arguments);
      sink.end(source.sinceMark);
      source.mark();
      return true;
    }
    if (source.ended) return false;
    yield;
  }
}

/** Consumes what follows the arguments inside the object of a call. */
function* restOfObject(source: Source): Reading {
  const scan = createJsonScan(1);
  while (true) {
    source.take(scan.next(source.held));
    if (scan.done || source.ended) return;
    yield;
  }
}

/** Reads calls up to `close`: one object, several, or a list of them. Returns how many calls were found. */
export function* readObjects(source: Source, sink: Sink, close: string, rules: JsonCalls = {}): Reading<number> {
  yield* skip(source);
  yield* literally(source, "[");
  let calls = 0;
  while (true) {
    yield* skip(source, /^[\s,;]+/);
    if (!source.startsWith("{") || !(yield* readObject(source, sink, rules))) break;
    calls++;
  }
  yield* literally(source, "]");
  yield* skip(source);
  if (calls > 0) {
    if (close !== "") yield* literally(source, close);
    source.mark();
  }
  return calls;
}

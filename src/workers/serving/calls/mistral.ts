/** Mistral: a list of objects behind the marker, or a name and its arguments behind each marker. Pure. */
import { readObjects } from "./json_calls.ts";
import { readSection } from "./named_calls.ts";
import { markedReader, type Reader } from "./parser.ts";
import { skip } from "./source.ts";

const MARKER = "[TOOL_CALLS]";
const NAMED = {
  open: "",
  separators: ["[ARGS]", "{"],
  name: /^\s*([\w.-]+)(?:\[CALL_ID\].*)?\s*$/,
  close: [],
};
/** The beginning of a list of calls. */
const BARE = ["[", "{", '"name"'];

const marked = markedReader([MARKER], function* (source, sink) {
  yield* skip(source);
  if (source.startsWith("[") || source.startsWith("{")) return yield* readObjects(source, sink, "");
  return yield* readSection(source, sink, NAMED, "");
});

/** Returns true while the text may begin a list of calls, and undefined when it does. */
function beginning(text: string): boolean | undefined {
  let rest = text.trimStart();
  for (const part of BARE) {
    if (rest === "" || (rest.length < part.length && part.startsWith(rest))) return true;
    if (!rest.startsWith(part)) return false;
    rest = rest.slice(part.length).trimStart();
  }
  return undefined;
}

/** A model may leave the marker out if its answer is only calls. */
export const mistralReader: Reader = function* (source, sink) {
  while (!source.ended && beginning(source.held)) yield;
  if (beginning(source.held) === undefined) {
    source.mark();
    if ((yield* readObjects(source, sink, "")) === 0) sink.content(source.sinceMark);
  }
  yield* marked(source, sink);
};

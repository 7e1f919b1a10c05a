/** Calls written as the name of a function, a separator, and the arguments as a JSON object. Pure. */
import { passObject } from "./json_calls.ts";
import type { Sink } from "./sink.ts";
import { head, literally, type Reading, type Source, skip } from "./source.ts";

export type NamedCall = {
  /** The marker before the name. Empty: the name comes at once. */
  open: string;
  /** Separators between the name and the arguments. A brace begins the arguments. */
  separators: readonly string[];
  /** Finds the name in the text before the separator. */
  name: RegExp;
  /** Texts that may follow the arguments, in this order. */
  close: readonly string[];
};

/** Reads one call. Returns false, with nothing passed on, if the text is not a call. */
function* readNamed(source: Source, sink: Sink, call: NamedCall): Reading<boolean> {
  if (call.open !== "" && !(yield* literally(source, call.open))) return false;
  const heading = yield* head(source, call.separators);
  const name = heading && call.name.exec(heading.text)?.[1];
  if (!name) return false;
  yield* skip(source);
  if (!source.startsWith("{")) return false;
  sink.begin(name);
  yield* passObject(source, sink);
  for (const text of call.close) {
    yield* skip(source);
    yield* literally(source, text);
  }
  sink.end(source.sinceMark);
  source.mark();
  return true;
}

/** Reads calls one after another, then `close`. Returns how many there were. */
export function* readSection(source: Source, sink: Sink, call: NamedCall, close: string): Reading<number> {
  let calls = 0;
  while (true) {
    yield* skip(source);
    if (close !== "" && calls > 0 && (yield* literally(source, close))) {
      source.mark();
      break;
    }
    if (call.open === "" && calls > 0) break;
    if (!(yield* readNamed(source, sink, call))) break;
    calls++;
  }
  return calls;
}

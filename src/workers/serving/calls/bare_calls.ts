/** Calls without a marker of their own: the whole answer is one or more objects, or is code behind a tag. Pure. */
import type { Tool } from "../../../lib/chat/messages.ts";
import { passObject, readObject, readObjects } from "./json_calls.ts";
import { passText, type Reader } from "./parser.ts";
import type { Sink } from "./sink.ts";
import { head, literally, type Reading, type Source, skip } from "./source.ts";

const PYTHON_TAG = "<|python_tag|>";
const FIRST_KEYS = ["name", "type", "function", "parameters", "id"];
/** Names of functions that run code which the model writes behind the tag. */
const INTERPRETERS = ["python", "ipython", "code_interpreter"];

const namesOf = (tools: readonly Tool[]) => tools.map((tool) => tool.function.name);

/** Llama 3: the whole answer is {"name": …, "parameters": …}, or several of them separated by semicolons. */
export function bareObjects(tools: readonly Tool[]): Reader {
  const names = namesOf(tools);
  return function* (source, sink) {
    source.mark();
    yield* skip(source);
    if (yield* literally(source, PYTHON_TAG)) {
      yield* readTagged(source, sink, names);
      return;
    }
    let calls = 0;
    while (yield* mayBegin(source)) {
      if (!(yield* readObject(source, sink, { names }))) break;
      calls++;
      yield* skip(source, /^[\s;,]+/);
    }
    if (calls === 0) sink.content(source.sinceMark);
    const marker = yield* passText(source, sink.content, [PYTHON_TAG]);
    if (marker === undefined) return;
    source.mark();
    source.take(marker.length);
    yield* readTagged(source, sink, names);
  };
}

/** Reads what stands behind the tag: objects, `name.call(key="value")`, or code for an interpreter. */
function* readTagged(source: Source, sink: Sink, names: readonly string[]): Reading {
  yield* skip(source);
  if (source.startsWith("{") || source.startsWith("[")) {
    if ((yield* readObjects(source, sink, "", { names })) > 0) return;
    sink.content(source.sinceMark);
    return;
  }
  while (!source.ended) yield;
  const text = source.held;
  const built = /^([\w-]+)\.call\((.*)\)\s*$/s.exec(text);
  const interpreter = INTERPRETERS.find((name) => names.includes(name));
  const args = built ? keywordsOf(built[2] ?? "") : undefined;
  const name = args ? built?.[1] : interpreter;
  if (name === undefined || !names.includes(name)) {
    sink.content(source.sinceMark);
    return;
  }
  source.take(text.length);
  sink.begin(name);
  sink.pass(JSON.stringify(args ?? { code: text }));
  sink.end(source.sinceMark);
}

/** Reads `a="x", b=2`. Returns undefined if it is anything else. */
function keywordsOf(text: string): Record<string, unknown> | undefined {
  const values: Record<string, unknown> = {};
  let rest = text.trim();
  while (rest !== "") {
    const next = /^(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null)\s*(?:,\s*|$)/.exec(rest);
    if (!next) return undefined;
    values[next[1] as string] = JSON.parse(next[2] as string);
    rest = rest.slice(next[0].length);
  }
  return values;
}

/** Waits until the text shows whether it begins like the object of a call. */
function* mayBegin(source: Source): Reading<boolean> {
  while (true) {
    const key = /^\{\s*(?:"([^"]*)("?))?/.exec(source.held);
    if (source.held !== "" && !key) return false;
    const [whole, name, closed] = key ?? ["", undefined, ""];
    if (closed) return FIRST_KEYS.includes(name as string);
    const possible = name === undefined ? whole === source.held : FIRST_KEYS.some((first) => first.startsWith(name));
    if (!possible || source.ended) return false;
    yield;
  }
}

const RECIPIENT = ">>>";

/** Functionary 3.2: each message is a recipient on one line, then its text. The prompt ends before the recipient. */
export function recipients(tools: readonly Tool[]): Reader {
  const names = namesOf(tools);
  return function* (source, sink) {
    while (true) {
      const heading = yield* head(source, ["\n"]);
      const name = heading?.text.trim() ?? "";
      const isCall = names.includes(name);
      if (isCall) yield* skip(source);
      if (isCall && source.startsWith("{")) {
        sink.begin(name);
        yield* passObject(source, sink);
        sink.end(source.sinceMark);
        yield* skip(source);
      } else if (name !== "all") sink.content(source.sinceMark);
      const marker = yield* passText(source, sink.content, [RECIPIENT]);
      if (marker === undefined) return;
      source.mark();
      source.take(marker.length);
    }
  };
}

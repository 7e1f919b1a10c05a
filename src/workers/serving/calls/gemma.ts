/** The calls of Gemma 4: call:name{key:value,…} with bare keys and texts between quote marks of their own. Pure. */
import type { Sink } from "./sink.ts";
import { head, literally, type Reading, type Source, settled } from "./source.ts";

export const GEMMA_QUOTE = '<|"|>';
const CLOSE = "<tool_call|>";

/** Reads one call behind its marker. Returns how many calls it found: one or none. */
export function* readGemma(source: Source, sink: Sink): Reading<number> {
  if (!(yield* literally(source, "call:"))) return 0;
  const name = yield* head(source, ["{"]);
  if (!name || !/^[\w.:-]+$/.test(name.text)) return 0;
  sink.begin(name.text);
  yield* passDictionary(source, sink);
  yield* literally(source, CLOSE);
  sink.end(source.sinceMark);
  source.mark();
  return 1;
}

/** Passes a dictionary on as JSON: bare keys are quoted, and texts are escaped. */
function* passDictionary(source: Source, sink: Sink): Reading {
  let depth = 0;
  while (true) {
    const word = /^[^\s,:{}[\]<"]+/.exec(source.held)?.[0] ?? "";
    // a word may go on, and a quote mark may be incomplete
    const undecided =
      word.length === source.held.length || (source.held.startsWith("<") && source.held.length < GEMMA_QUOTE.length);
    if (undecided && !source.ended) {
      yield;
      continue;
    }
    if (source.held === "") return;
    if (source.startsWith(GEMMA_QUOTE)) {
      source.take(GEMMA_QUOTE.length);
      if (!(yield* passQuoted(source, sink))) return;
      continue;
    }
    if (source.startsWith('"')) {
      const text = /^"(?:[^"\\]|\\.)*"/s.exec(source.held)?.[0];
      if (text === undefined && !source.ended) yield;
      else sink.pass(source.take(text?.length ?? source.held.length));
      continue;
    }
    if (word !== "") {
      source.take(word.length);
      while (!source.ended && source.held === "") yield;
      sink.pass(source.startsWith(":") ? JSON.stringify(word) : word);
      continue;
    }
    const char = source.take(1);
    sink.pass(char === ":" || char === "," ? `${char} ` : char);
    if (char === "{" || char === "[") depth++;
    if ((char === "}" || char === "]") && --depth <= 0) return;
  }
}

/** Returns false if the text ended before its quote mark. */
function* passQuoted(source: Source, sink: Sink): Reading<boolean> {
  sink.pass('"');
  while (true) {
    const at = source.held.indexOf(GEMMA_QUOTE);
    const end = at >= 0 ? at : source.ended ? source.held.length : settled(source.held, [GEMMA_QUOTE]);
    sink.pass(JSON.stringify(source.take(end)).slice(1, -1));
    if (at >= 0) {
      source.take(GEMMA_QUOTE.length);
      sink.pass('"');
      return true;
    }
    if (source.ended) return false;
    yield;
  }
}

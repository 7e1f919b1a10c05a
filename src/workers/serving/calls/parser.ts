/**
 * Finds tool calls in a text that arrives in pieces. Text before a call passes at once. Text that only looks like a
 * call is returned as content. Pure.
 */
import { createSink, type Parsed, type Sink } from "./sink.ts";
import { firstOf, type Reading, Source, settled } from "./source.ts";

export type CallParser = { push: (text: string) => Parsed; end: () => Parsed };
export type Reader = (source: Source, sink: Sink) => Reading;

/** `before`: text that the parser reads first, because the prompt ends with it. */
export function createCallParser(reader: Reader, pieces: boolean, before = ""): CallParser {
  const source = new Source();
  const sink = createSink(pieces);
  const reading = reader(source, sink);
  const push = (text: string) => {
    source.held += text;
    reading.next();
    return sink.take();
  };
  push(before);
  return {
    push,
    end() {
      source.ended = true;
      while (!reading.next().done);
      sink.content(source.take(source.held.length));
      return sink.take();
    },
  };
}

/**
 * Passes text on up to one of the markers and returns the marker, which is not consumed. White space after a call is
 * dropped if a call or the end follows.
 */
export function* passText(
  source: Source,
  pass: (text: string) => void,
  markers: readonly string[],
  afterCall = false,
): Reading<string | undefined> {
  let blank = afterCall;
  while (true) {
    const marked = firstOf(source.held, markers);
    const end = marked ? marked.at : source.ended ? source.held.length : settled(source.held, markers);
    if (source.held.slice(0, end).trim() !== "") blank = false;
    if (!blank) pass(source.take(end));
    else if (marked || source.ended) source.take(end);
    if (marked) return marked.marker;
    if (source.ended) return undefined;
    yield;
  }
}

/**
 * A reader of calls that begin with a marker. `body` reads the calls behind the marker, which is consumed, and returns
 * how many it found. With none the text since the marker is content.
 */
export function markedReader(
  markers: readonly string[],
  body: (source: Source, sink: Sink, marker: string) => Reading<number>,
): Reader {
  return function* (source, sink) {
    let calls = 0;
    while (true) {
      const marker = yield* passText(source, sink.content, markers, calls > 0);
      if (marker === undefined) return;
      source.mark();
      source.take(marker.length);
      const count = yield* body(source, sink, marker);
      calls += count;
      const rest = source.sinceMark;
      if (count === 0 || rest.trim() !== "") sink.content(rest);
      source.mark();
    }
  };
}

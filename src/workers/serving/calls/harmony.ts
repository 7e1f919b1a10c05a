/**
 * The messages of gpt-oss. Each has a header with a channel and sometimes a recipient: thoughts are in the channel
 * `analysis`, calls go to a function, and the rest is the answer. Pure.
 */
import { passObject } from "./json_calls.ts";
import { passText, type Reader } from "./parser.ts";
import type { Sink } from "./sink.ts";
import { head, literally, type Reading, type Source, skip } from "./source.ts";

const START = "<|start|>";
const CHANNEL = "<|channel|>";
const MESSAGE = "<|message|>";
const ENDS = ["<|end|>", "<|return|>", "<|call|>", START, CHANNEL];

/** True if the text may begin with a header without `<|start|>`, which ends the prompt. */
const mayBeHeader = (text: string) =>
  [CHANNEL, START, " to="].some((open) => open.startsWith(text.slice(0, open.length)));

export const readHarmony: Reader = function* (source, sink) {
  while (!source.ended && source.held.length < START.length && mayBeHeader(source.held)) yield;
  let isHeader = source.held !== "" && mayBeHeader(source.held);
  while (true) {
    source.mark();
    if (isHeader) yield* readMessage(source, sink);
    const marker = yield* passText(source, sink.content, [START, CHANNEL]);
    if (marker === undefined) return;
    isHeader = true;
  }
};

/** Reads a header and its message. A text that is no header stays. */
function* readMessage(source: Source, sink: Sink): Reading {
  yield* literally(source, START);
  const heading = yield* head(source, [MESSAGE]);
  if (!heading) {
    sink.content(source.sinceMark + source.take(source.startsWith(CHANNEL) ? CHANNEL.length : 0));
    return;
  }
  const { text } = heading;
  const channel = new RegExp(`${CHANNEL.replaceAll("|", "\\|")}\\s*(\\w+)`).exec(text)?.[1];
  const name = /\bto=functions\.([^\s<]+)/.exec(text)?.[1];
  const readAs = channel === "analysis" ? sink.thoughts : sink.content;
  if (name !== undefined) yield* skip(source);
  if (name !== undefined && source.startsWith("{")) {
    sink.begin(name);
    yield* passObject(source, sink);
    sink.end(source.sinceMark);
    yield* skip(source);
  } else if (name !== undefined) sink.content(source.sinceMark);
  const end = yield* passText(source, readAs, ENDS);
  if (end !== undefined && end !== START && end !== CHANNEL) source.take(end.length);
}

/** A format of tool calls, and how the formats of most families are made. */
import type { Tool } from "../../../lib/chat/messages.ts";
import { literal, type Rules } from "../grammar/rules.ts";
import { type CallGrammar, list, namedCall, objectCall, several, taggedCalls } from "./grammars.ts";
import { type JsonCalls, readObjects } from "./json_calls.ts";
import { type NamedCall, readSection } from "./named_calls.ts";
import { markedReader, type Reader } from "./parser.ts";
import { argumentTypes, readTagged, type Tags } from "./tagged_calls.ts";

export type SpeltCall = { name: string; arguments: unknown };

export type CallFormat = {
  name: string;
  /** Ends the prompt when a call is required and the model has no thoughts to write first. */
  opening: string;
  /** The body of a rule for one call or several, without `opening`. */
  grammar: CallGrammar;
  /** A text that marks one call as complete. */
  stopAfterOne: readonly string[];
  reader: (tools: readonly Tool[]) => Reader;
  /** Answers without tools have this format too. */
  always?: boolean;
  /** A rule for an answer that must match `rule`, where an answer is more than its text. */
  answer?: (rules: Rules, rule: string) => string;
  /** Spells the id of a call for the prompt. `index`: how many calls came before it. */
  spellId: (id: string, name: string, index: number) => string;
  /** Templates show the arguments of a call as JSON. */
  json: boolean;
  /** Shows a call to a model whose template does not list the tools. */
  example?: string;
  /** Writes calls as the model does, for a template that does not. Absent: in the Hermes format. */
  spell?: (calls: readonly SpeltCall[]) => string;
};

export const same = (id: string) => id;

export const KEYS = { name: "name", arguments: "arguments" };

type Objects = {
  name: string;
  /** The first one opens required calls. */
  markers: readonly [string, ...string[]];
  close: string;
  keys?: { name: string; arguments: string; before?: string };
  how?: JsonCalls;
};

/** A list of JSON objects behind a marker. */
export const listFormat = ({ name, markers, close, keys = KEYS, how = {} }: Objects): CallFormat => ({
  name,
  opening: markers[0],
  grammar(rules, callables, parallel) {
    const end = close === "" ? "" : ` ${literal(close)}`;
    return `${list(rules, objectCall(rules, callables, { ...keys, keyed: how.keyed === true }), parallel)}${end}`;
  },
  stopAfterOne: [],
  reader: () => markedReader(markers, (source, sink) => readObjects(source, sink, close, how)),
  spellId: same,
  json: true,
  ...(how.keyed ? {} : { spell: (calls) => `${markers[0]}${JSON.stringify(calls)}${close}` }),
});

type Named = {
  name: string;
  /** Texts around all calls. */
  section: readonly [open: string, close: string];
  call: NamedCall;
  /** Grammar rules before the name, between it and the arguments, and behind them. */
  rule: readonly [string, string, string];
  between?: string;
  example?: string;
};

/** Names with JSON arguments behind a marker. */
export const namedFormat = ({ name, section, call, rule, between = '""', example }: Named): CallFormat => ({
  name,
  opening: section[0],
  grammar(rules, callables, parallel) {
    const end = section[1] === "" ? "" : ` ${literal(section[1])}`;
    return `${several(rules, namedCall(rules, callables, rule), { parallel, between })}${end}`;
  },
  stopAfterOne: [],
  reader: () => markedReader([section[0]], (source, sink) => readSection(source, sink, call, section[1])),
  spellId: same,
  json: true,
  ...(example === undefined ? {} : { example }),
});

/** Calls as tags. A model may forget the tag around a call. */
export const taggedFormat = (name: string, tags: Tags): CallFormat => ({
  name,
  opening: "",
  grammar: (rules, callables, parallel) => taggedCalls(rules, callables, { tags, parallel }),
  stopAfterOne: tags.section[1] === "" ? [] : [tags.section[1]],
  reader(tools) {
    const types = argumentTypes(tools);
    const markers = [tags.section[0], tags.call[0]].filter((marker) => marker !== "");
    return markedReader(markers, (source, sink, marker) => readTagged(source, sink, { tags, types, marker }));
  },
  spellId: same,
  json: false,
});

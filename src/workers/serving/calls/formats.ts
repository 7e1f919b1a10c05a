/** The formats in which model families write a tool call. The text of the chat template decides which one applies. */
import type { Tool } from "../../../lib/chat/messages.ts";
import { literal, type Rules } from "../grammar/rules.ts";
import { type CallParser, createArrayParser, createObjectParser, createTagParser } from "./parsers.ts";

const MAX_CALLS = 16;

/** A function with the grammar rule of its arguments. */
export type Callable = { name: string; argumentsRule: string };

export type CallFormat = {
  name: "hermes" | "llama" | "mistral";
  /** Ends the prompt when a call is required: the marker may be a control token, which no grammar can name. */
  opening: string;
  /** The body of a rule for one call or several. */
  grammar: (rules: Rules, callables: readonly Callable[], parallel: boolean) => string;
  /** A text that marks one call as complete. */
  stopAfterOne: readonly string[];
  /** `opened`: the text begins inside a call, after `opening`. `pieces`: arguments are wanted as they come. */
  createParser: (tools: readonly Tool[], opened: boolean, pieces: boolean) => CallParser;
  /** Spells the id of a call for the prompt. */
  spellId: (id: string) => string;
};

const same = (id: string) => id;

function anyCall(rules: Rules, callables: readonly Callable[], key: string): string {
  const calls = callables.map(({ name, argumentsRule }) =>
    rules.define(`${literal(`{"name": ${JSON.stringify(name)}, "${key}": `)} ${argumentsRule} "}"`),
  );
  return rules.define(calls.join(" | "));
}

export const HERMES: CallFormat = {
  name: "hermes",
  opening: "",
  grammar(rules, callables, parallel) {
    const one = rules.define(`"<tool_call>\\n" ${anyCall(rules, callables, "arguments")} "\\n</tool_call>"`);
    const another = rules.define(`"\\n" ${one}`);
    return parallel ? `${one} ${another}{0,${MAX_CALLS - 1}}` : one;
  },
  stopAfterOne: ["</tool_call>"],
  createParser: (_tools, _opened, pieces) => createTagParser(pieces),
  spellId: same,
};

const LLAMA: CallFormat = {
  name: "llama",
  opening: "",
  grammar: (rules, callables) => anyCall(rules, callables, "parameters"),
  stopAfterOne: [],
  createParser: (tools) => createObjectParser(tools.map((tool) => tool.function.name)),
  spellId: same,
};

const MISTRAL: CallFormat = {
  name: "mistral",
  opening: "[TOOL_CALLS]",
  grammar(rules, callables, parallel) {
    const one = anyCall(rules, callables, "arguments");
    const another = rules.define(`"," " "? ${one}`);
    return parallel ? `"[" ${one} ${another}{0,${MAX_CALLS - 1}} "]"` : `"[" ${one} "]"`;
  },
  stopAfterOne: [],
  createParser: (_tools, opened) => createArrayParser(opened),
  /** Mistral's templates accept only nine letters and digits. */
  spellId: (id) => (/^[A-Za-z0-9]{9}$/.test(id) ? id : Bun.hash(id).toString(36).padStart(9, "0").slice(-9)),
};

/** Returns undefined for an unknown template; the prompt then asks for calls in the Hermes format. */
export function formatOf(template: string): CallFormat | undefined {
  if (template.includes("[TOOL_CALLS]") && !template.includes("[ARGS]")) return MISTRAL;
  if (template.includes("<tool_call>") && !template.includes("<function=")) return HERMES;
  if (template.includes("<|python_tag|>") || /\{\\?"name\\?": function name, \\?"parameters\\?"/.test(template))
    return LLAMA;
  return undefined;
}

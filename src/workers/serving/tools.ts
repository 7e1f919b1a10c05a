/**
 * Turns tools, tool_choice and response_format of a request into a grammar for the engine and a parser for its text.
 */
import type { ChatCompletionRequest } from "../../lib/chat/chat_completion.ts";
import type { Tool } from "../../lib/chat/messages.ts";
import type { CallFormat } from "./calls/formats.ts";
import type { CallParser } from "./calls/parsers.ts";
import { createRules, type Rules } from "./grammar/rules.ts";
import { compileSchema, schemaGrammar } from "./grammar/schema.ts";

export type Plan = {
  /** The tools that the prompt lists. */
  shown: readonly Tool[];
  grammar?: string;
  /** The field that the grammar comes from. */
  grammarOf: "/tools" | "/response_format" | "/grammar" | "/json_schema";
  /** This text ends the prompt. */
  opening: string;
  stop: readonly string[];
  /** Makes one parser for each sample. Undefined: the text is the content. */
  newParser?: () => CallParser;
};

type Constraints = Pick<ChatCompletionRequest, "grammar" | "json_schema">;
type Request = Constraints &
  Pick<ChatCompletionRequest, "tools" | "tool_choice" | "parallel_tool_calls" | "response_format" | "stream">;

const NO_PARAMETERS = { type: "object", properties: {}, additionalProperties: false };
const FORMAT_AT = "/response_format";
const SCHEMA_AT = `${FORMAT_AT}/json_schema/schema`;

/** The grammar of `grammar` or `json_schema`, the fields of llama.cpp. The request has at most one of them. */
export function givenGrammar({ grammar, json_schema: schema }: Constraints): Pick<Plan, "grammar" | "grammarOf"> {
  if (grammar) return { grammar, grammarOf: "/grammar" };
  if (!schema) return { grammarOf: FORMAT_AT };
  return { grammar: schemaGrammar(schema, "/json_schema"), grammarOf: "/json_schema" };
}

export function planAnswer(request: Request, format: CallFormat): Plan {
  if (request.grammar || request.json_schema) return { shown: [], opening: "", stop: [], ...givenGrammar(request) };
  const { tools, tool_choice: choice, parallel_tool_calls: parallel } = request;
  const rules = createRules();
  const answer = answerRule(request, rules);
  if (tools.length === 0 || choice === "none")
    return {
      shown: [],
      grammarOf: FORMAT_AT,
      opening: "",
      stop: [],
      ...(answer ? { grammar: rules.toGrammar(answer) } : {}),
    };

  const forced = choice !== "auto";
  const callable = typeof choice === "object" ? tools.filter((t) => t.function.name === choice.function.name) : tools;
  const one = !parallel || typeof choice === "object";
  const plan: Plan = {
    shown: tools,
    grammarOf: "/tools",
    opening: forced ? format.opening : "",
    stop: one && !forced ? format.stopAfterOne : [],
    newParser: () => format.createParser(tools, forced, request.stream),
  };
  if (forced) return { ...plan, grammar: rules.toGrammar(callsRule(callable, tools, format, { rules, one })) };
  if (!answer) return plan;
  const calls = rules.define(callsRule(callable, tools, format, { rules, one }));
  return { ...plan, grammar: rules.toGrammar(`${calls} | ${answer}`) };
}

/** The rule of response_format, if it sets a format. */
function answerRule({ response_format: wanted }: Request, rules: Rules): string | undefined {
  if (wanted.type === "text") return undefined;
  if (wanted.type === "json_object")
    return wanted.schema ? compileSchema(wanted.schema, `${FORMAT_AT}/schema`, rules) : "object";
  const { schema } = wanted.json_schema;
  return schema ? compileSchema(schema, SCHEMA_AT, rules) : "object";
}

function callsRule(
  callable: readonly Tool[],
  tools: readonly Tool[],
  format: CallFormat,
  { rules, one }: { rules: Rules; one: boolean },
): string {
  const callables = callable.map((tool) => {
    const at = `/tools/${tools.indexOf(tool)}/function/parameters`;
    const schema = tool.function.parameters ?? NO_PARAMETERS;
    const named = Object.keys(schema).length === 0 ? NO_PARAMETERS : { type: "object", ...schema };
    return { name: tool.function.name, argumentsRule: compileSchema(named, at, rules) };
  });
  return format.grammar(rules, callables, !one);
}

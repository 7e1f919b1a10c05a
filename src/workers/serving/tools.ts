/**
 * Turns tools, tool_choice and response_format of a request into a grammar for the engine and a parser for its text.
 */
import type { ChatCompletionRequest } from "../../lib/chat/chat_completion.ts";
import { type Constraint, constraintsOf } from "../../lib/chat/constraints.ts";
import type { Tool } from "../../lib/chat/messages.ts";
import type { PlainTools } from "../../lib/chat/tools.ts";
import type { CallFormat } from "./calls/format.ts";
import type { Callable } from "./calls/grammars.ts";
import { type CallParser, createCallParser } from "./calls/parser.ts";
import { isSchema, type Schema } from "./grammar/merge.ts";
import { createRules, literal, type Rules } from "./grammar/rules.ts";
import { compileSchema, schemaGrammar } from "./grammar/schema.ts";
import { textRule } from "./grammar/text.ts";
import { until } from "./grammar/until.ts";
import type { ThoughtTags, thoughtState } from "./parts/thoughts.ts";

export type Plan = {
  grammar?: string;
  /** The field that the grammar comes from, as a JSON pointer. */
  grammarOf: string;
  /** This text ends the prompt. */
  opening: string;
  stop: readonly string[];
  /** Makes one parser for each sample. Undefined: the text is the content. */
  newParser?: () => CallParser;
  /** The answer may begin with thoughts. */
  thinks: boolean;
};

/** The tags of the model's thoughts, and where the answer begins. */
export type Thoughts = { tags: ThoughtTags; state: ReturnType<typeof thoughtState> };

type Constraints = Parameters<typeof constraintsOf>[0];
type Request = Constraints &
  Omit<PlainTools, "custom"> &
  Pick<ChatCompletionRequest, "parallel_tool_calls" | "response_format" | "stream">;

const NO_PARAMETERS = { type: "object", properties: {}, additionalProperties: false };
const FORMAT_AT = "/response_format";
const SCHEMA_AT = `${FORMAT_AT}/json_schema/schema`;

/** The grammar of `grammar`, `structured_outputs` and the like. The request has at most one of them. */
export function givenGrammar(request: Constraints): Pick<Plan, "grammar" | "grammarOf"> {
  const [constraint] = constraintsOf(request);
  return constraint ? { grammar: grammarFor(constraint), grammarOf: constraint.at } : { grammarOf: FORMAT_AT };
}

function grammarFor({ kind, value, at }: Constraint): string {
  if (kind === "grammar") return value;
  if (kind === "schema") return schemaGrammar(value, at);
  const rules = createRules();
  return rules.toGrammar(kind === "regex" ? textRule(value, rules, at) : value.map(literal).join(" | "));
}

/** The tools that the prompt lists. */
export const shownTools = (request: Request): readonly Tool[] =>
  request.tool_choice === "none" || constraintsOf(request).length > 0 ? [] : request.tools;

/** `thoughts`: undefined if the model writes none. */
export function planAnswer(request: Request, format: CallFormat, thoughts?: Thoughts): Plan {
  const plain: Plan = { grammarOf: FORMAT_AT, opening: "", stop: [], thinks: thoughts !== undefined };
  const constraint = givenGrammar(request);
  if (constraint.grammar !== undefined) return { ...plain, thinks: false, ...constraint };
  const { tool_choice: choice, parallel_tool_calls: parallel } = request;
  const tools = shownTools(request);
  const rules = createRules();
  const answer = answerRule(request, rules);
  const wrapped = answer && (format.answer?.(rules, answer) ?? answer);
  const newParser = (opening = "") => createCallParser(format.reader(tools), request.stream, opening);
  if (tools.length === 0)
    return {
      ...plain,
      ...(format.always ? { newParser } : {}),
      ...(wrapped ? { grammar: rules.toGrammar(thenRule(rules, wrapped, thoughts)) } : {}),
    };

  const forced = choice !== "auto";
  const callable = typeof choice === "object" ? tools.filter((t) => t.function.name === choice.function.name) : tools;
  const one = !parallel || typeof choice === "object";
  // a model that thinks first writes the opening itself
  const opening = forced && mayThink(thoughts) === undefined ? format.opening : "";
  const plan: Plan = {
    ...plain,
    grammarOf: "/tools",
    opening,
    stop: one && !forced ? format.stopAfterOne : [],
    newParser: () => newParser(opening),
  };
  if (!forced && !wrapped) return plan;
  const calls = rules.define(callsRule(callable, tools, format, { rules, one }));
  const whole = format.opening === "" || opening !== "" ? calls : `${literal(format.opening)} ${calls}`;
  const root = forced ? whole : `(${whole} | ${wrapped})`;
  return { ...plan, grammar: rules.toGrammar(thenRule(rules, root, thoughts)) };
}

/** The tags of a thought that the answer may begin with, or begins in. */
const mayThink = (thoughts: Thoughts | undefined) => (thoughts?.state === "behind" ? undefined : thoughts);

/** The thoughts of the model, then `rule`. */
function thenRule(rules: Rules, rule: string, thoughts: Thoughts | undefined): string {
  const possible = mayThink(thoughts);
  if (!possible) return rule;
  const { open, close } = possible.tags;
  const rest = rules.define(`${until(rules, close)} ${literal(close)} [ \\n]{0,2}`);
  return possible.state === "inside" ? `${rest} ${rule}` : `(${literal(open)} ${rest})? ${rule}`;
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
  const callables = callable.map((tool): Callable => {
    const at = `/tools/${tools.indexOf(tool)}/function/parameters`;
    const parameters = tool.function.parameters ?? NO_PARAMETERS;
    const schema: Schema = Object.keys(parameters).length === 0 ? NO_PARAMETERS : { type: "object", ...parameters };
    return {
      name: tool.function.name,
      parameters: schema,
      argumentsRule: () => compileSchema(schema, at, rules),
      compile: (property) => compileSchema(schemaOf(schema, property), `${at}/properties/${property}`, rules),
    };
  });
  return format.grammar(rules, callables, !one);
}

/** The schema of one property, with the definitions that it may refer to. */
function schemaOf({ properties, $defs, definitions }: Schema, property: string): unknown {
  const schema = isSchema(properties) ? properties[property] : undefined;
  if (!isSchema(schema)) return schema ?? {};
  return { ...schema, ...($defs ? { $defs } : {}), ...(definitions ? { definitions } : {}) };
}

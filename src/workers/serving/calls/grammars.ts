/** Grammar rules for required calls in each format. */
import { isSchema, type Schema } from "../grammar/merge.ts";
import { literal, type Rules } from "../grammar/rules.ts";
import { until } from "../grammar/until.ts";
import { GEMMA_QUOTE } from "./gemma.ts";
import type { Tags } from "./tagged_calls.ts";

const MAX_CALLS = 16;

/** A function with the schema of its arguments. */
export type Callable = {
  name: string;
  parameters: Schema;
  /** Defines the rule of the arguments as JSON. */
  argumentsRule: () => string;
  /** Defines the rule of one argument as JSON. */
  compile: (property: string) => string;
};

export type CallGrammar = (rules: Rules, callables: readonly Callable[], parallel: boolean) => string;

/** One call, or several with `between` between them. */
export function several(rules: Rules, one: string, { parallel, between }: { parallel: boolean; between: string }) {
  if (!parallel) return one;
  const another = rules.define(`${between} ${one}`);
  return `${one} ${another}{0,${MAX_CALLS - 1}}`;
}

const eitherOf = (rules: Rules, callables: readonly Callable[], rule: (callable: Callable) => string): string =>
  rules.define(callables.map((callable) => rules.define(rule(callable))).join(" | "));

type Keys = { name: string; arguments: string; before?: string; keyed?: boolean };

/** A call as a JSON object. `before`: members that come first. `keyed`: the name is the key of the arguments. */
export const objectCall = (rules: Rules, callables: readonly Callable[], keys: Keys) =>
  eitherOf(rules, callables, ({ name, argumentsRule }) => {
    const quoted = JSON.stringify(name);
    const open = keys.keyed ? `{${quoted}: ` : `{${keys.before ?? ""}"${keys.name}": ${quoted}, "${keys.arguments}": `;
    return `${literal(open)} ${argumentsRule()} "}"`;
  });

export const list = (rules: Rules, one: string, parallel: boolean) =>
  `"[" ${several(rules, one, { parallel, between: '"," " "?' })} "]"`;

/** A call as a name, a text and the arguments as JSON. */
export const namedCall = (
  rules: Rules,
  callables: readonly Callable[],
  [before, between, after]: readonly [string, string, string],
) =>
  eitherOf(
    rules,
    callables,
    ({ name, argumentsRule }) =>
      `${before} ${literal(name)} ${between} ${argumentsRule()}${after === "" ? "" : ` ${after}`}`,
  );

const propertiesOf = ({ parameters }: Callable): [string, unknown][] =>
  isSchema(parameters["properties"]) ? Object.entries(parameters["properties"]) : [];

const isRequired = ({ parameters }: Callable, property: string): boolean =>
  Array.isArray(parameters["required"]) && parameters["required"].includes(property);

/** Each argument in the order of the schema. Optional ones may be left out. */
const argumentsOf = (rules: Rules, callable: Callable, rule: (property: string, schema: unknown) => string) =>
  propertiesOf(callable)
    .map(([property, schema]) => {
      const name = rules.define(rule(property, schema));
      return isRequired(callable, property) ? name : `${name}?`;
    })
    .join(" ");

/** The value of an argument between tags: text as it is, and JSON for every other type. */
function valueRule(rules: Rules, schema: unknown, close: string, compile: () => string): string {
  const { type, enum: values, const: value } = isSchema(schema) ? schema : {};
  const texts = values ?? (value === undefined ? undefined : [value]);
  if (Array.isArray(texts) && texts.every((text) => typeof text === "string"))
    return texts.map((text) => literal(text)).join(" | ");
  return type === "string" ? until(rules, close) : compile();
}

const optional = (text: string) => (text === "" ? "" : `${literal(text)} `);

/** Calls as tags. */
export function taggedCalls(
  rules: Rules,
  callables: readonly Callable[],
  { tags, parallel }: { tags: Tags; parallel: boolean },
): string {
  const [open, afterName, close] = tags.call;
  const line = tags.lines ? "\n" : "";
  const [argument, afterArgument, beforeValue, afterValue] = tags.argument;
  const isText = (schema: unknown) => isSchema(schema) && schema["type"] === "string";
  const before = (schema: unknown) =>
    beforeValue.startsWith(" string=") ? ` string="${isText(schema)}">` : beforeValue;
  const one = eitherOf(rules, callables, (callable) => {
    const members = argumentsOf(rules, callable, (property, schema) => {
      const end = `${line}${afterValue}`;
      const value = rules.define(valueRule(rules, schema, end, () => callable.compile(property)));
      return `${literal(`${argument}${property}${afterArgument}${before(schema)}${line}`)} ${value} ${literal(`${end}\n`)}`;
    });
    return `${literal(`${open}${callable.name}${afterName}\n`)} ${members} ${literal(close)}`;
  });
  const [sectionOpen, sectionClose] = tags.section;
  const calls = several(rules, one, { parallel: parallel && tags.many !== "section", between: '"\\n"' });
  const section = rules.define(
    sectionOpen === "" ? calls : `${optional(`${sectionOpen}\n`)}${calls} ${optional(`\n${sectionClose}`)}`,
  );
  return tags.many === "section" ? several(rules, section, { parallel, between: '"\\n"' }) : section;
}

/** Gemma's dictionary. Texts stand between quote marks of their own; other values are JSON. */
export function gemmaCalls(rules: Rules, callables: readonly Callable[], parallel: boolean): string {
  const quote = literal(GEMMA_QUOTE);
  const one = eitherOf(rules, callables, (callable) => {
    const members = propertiesOf(callable).map(([property, schema]) => {
      const value = rules.define(valueRule(rules, schema, GEMMA_QUOTE, () => callable.compile(property)));
      const { type, enum: values } = isSchema(schema) ? schema : {};
      const isText = type === "string" || (Array.isArray(values) && values.every((each) => typeof each === "string"));
      const rule = rules.define(`${literal(`${property}:`)} ${isText ? `${quote} ${value} ${quote}` : value}`);
      return { rule, required: isRequired(callable, property) };
    });
    return `${literal(`<|tool_call>call:${callable.name}{`)} ${separated(rules, members)} ${literal("}<tool_call|>")}`;
  });
  return several(rules, one, { parallel, between: '""' });
}

/** Calls as Python writes them. Values are JSON, but for True and False. */
export function pythonCalls(rules: Rules, callables: readonly Callable[], parallel: boolean): string {
  const one = eitherOf(rules, callables, (callable) => {
    const members = propertiesOf(callable).map(([property, schema]) => {
      const isBoolean = isSchema(schema) && schema["type"] === "boolean";
      const value = isBoolean ? rules.define('"True" | "False"') : callable.compile(property);
      return { rule: rules.define(`${literal(`${property}=`)} ${value}`), required: isRequired(callable, property) };
    });
    return `${literal(`${callable.name}(`)} ${separated(rules, members)} ")"`;
  });
  return several(rules, one, { parallel, between: '", "' });
}

/** Members in this order with commas between those that are there. */
function separated(rules: Rules, members: readonly { rule: string; required: boolean }[], begun = false): string {
  const [member, ...rest] = members;
  if (!member) return '""';
  const withMember = `${begun ? '"," ' : ""}${member.rule} ${separated(rules, rest, true)}`;
  return rules.define(member.required ? withMember : `${withMember} | ${separated(rules, rest, begun)}`);
}

/**
 * A chat template and its abilities. They are tested once: the template renders small conversations, and the output shows
 * whether it contains the system text, the tools and the arguments.
 */
import { errorText } from "../../lib/error_text.ts";
import { AppError } from "../../lib/errors.ts";
import type { CallFormat } from "./calls/format.ts";
import { formatOf, HERMES } from "./calls/formats.ts";
import { inParts, type TemplateTurn } from "./conversation.ts";
import type { ModelFacts } from "./engine/types.ts";
import { compileTemplate, type Render, TemplateOverrun, TemplateRefusal } from "./jinja.ts";

export type TemplateFacts = Pick<ModelFacts, "bosToken" | "eosToken">;
export type Template = TemplateFacts & { source: string; evaluate: Render };

/** The turns as the template gets them. `inParts`: each content is a list of parts. */
type Input = {
  turns: readonly TemplateTurn[];
  inParts: boolean;
  tools?: readonly unknown[];
  variables?: Record<string, unknown>;
  open?: boolean;
};

export type Abilities = Readonly<{
  /** The format in which this model writes calls. */
  format: CallFormat;
  /** The template lists tools; the prompt lists them and the template writes calls; the prompt does both. */
  tools: "native" | "described" | "foreign";
  /** Some templates of models that read images know no content but a list of parts. */
  needsParts: boolean;
  takesSystem: boolean;
  takesDeveloper: boolean;
  calls: CallAbility;
  /** Some templates reject a turn with several calls, or write the first one only. */
  takesSeveral: boolean;
  /** The template failed on a few words. Requests must not wait for it again. */
  overrun: TemplateOverrun | null;
}>;

/**
 * Most templates write arguments as JSON themselves; some expect finished text, and some write no calls at all. Some write
 * the calls of a turn only if it has no text: its content is then replaced.
 */
type CallAbility = { as: "object" | "text" | "nothing"; content: "kept" | "" | null };

/** An unreadable template is reported only when a client chats: the other routes work without it. */
export function compileChat(source: string, { bosToken, eosToken }: TemplateFacts): Template {
  try {
    return { source, bosToken, eosToken, evaluate: compileTemplate(source) };
  } catch (cause) {
    const message = `The model's chat template cannot be read (${errorText(cause)}). Use /completions instead`;
    const evaluate = () => {
      throw new AppError("invalid_request", message, { cause });
    };
    return { source, bosToken, eosToken, evaluate };
  }
}

/** No tools are passed as null, as most templates expect. Some iterate over them without a check. */
export function evaluateTurns(template: Template, input: Input): string {
  const { turns, tools = [], variables = {}, open = true } = input;
  const fixed = {
    ...variables,
    messages: input.inParts ? turns.map(inParts) : turns,
    add_generation_prompt: open,
    bos_token: template.bosToken,
    eos_token: template.eosToken,
    // names of Firefunction
    ...(template.source.includes("+ functions")
      ? { functions: JSON.stringify(tools), datetime: new Date().toUTCString() }
      : {}),
  };
  try {
    return template.evaluate({ ...fixed, tools: tools.length > 0 ? tools : null });
  } catch (error) {
    if (tools.length > 0 || !isBug(error)) throw error;
    return template.evaluate({ ...fixed, tools: [] });
  }
}

/** True if neither the template's own rejection nor its budget caused the error. */
export const isBug = (error: unknown) =>
  !(error instanceof AppError || error instanceof TemplateRefusal || error instanceof TemplateOverrun);

export const asText = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

const PROBE = "zyxprobe";
const PROBE_PARAMETERS = {
  type: "object",
  properties: { value: { type: "string", description: PROBE } },
  required: ["value"],
};
const PROBE_TOOL = { type: "function", function: { name: PROBE, description: PROBE, parameters: PROBE_PARAMETERS } };
const ASK: TemplateTurn = { role: "user", content: "hello" };
const SPOKEN: TemplateTurn = { role: "user", content: PROBE };

/** Returns true if the template writes `text` for these turns. */
type Shows = (text: string, input: Input) => boolean;

export function probe(template: Template): Abilities {
  let overrun: TemplateOverrun | null = null;
  const shows: Shows = (text, input) => {
    if (overrun) return false;
    try {
      return evaluateTurns(template, input).includes(text);
    } catch (error) {
      if (error instanceof TemplateOverrun) overrun = error;
      return false;
    }
  };
  const spoken = [false, true].find((inParts) => shows(PROBE, { turns: [SPOKEN], inParts }));
  const needsParts = spoken ?? false;
  const named = formatOf(template.source);
  const isNative = named !== undefined && shows(PROBE, { turns: [ASK], inParts: needsParts, tools: [PROBE_TOOL] });
  const isUsable = isNative || named?.example !== undefined || named?.always;
  const format = named && isUsable ? named : HERMES;
  const tools = isNative ? "native" : format === HERMES ? "foreign" : "described";
  const showsCalls: ShowsCalls = (text, args, content) =>
    shows(text, { turns: turnsWithCalls(args, content), inParts: needsParts, tools: [PROBE_TOOL] });
  // The prompt of a foreign template spells calls out.
  const calls = tools === "foreign" ? NO_CALLS : probeCalls(showsCalls, format);
  return Object.freeze({
    format,
    tools,
    needsParts,
    takesSystem: shows(PROBE, { turns: [{ role: "system", content: PROBE }, ASK], inParts: needsParts }),
    takesDeveloper: /["']developer["']/.test(template.source),
    calls,
    takesSeveral: tools !== "foreign" && probeSeveral(showsCalls, calls),
    overrun,
  });
}

/** The same for a turn with one call for each of these arguments. */
type ShowsCalls = (text: string, args: readonly unknown[], content: CallAbility["content"]) => boolean;

const NO_CALLS: CallAbility = { as: "nothing", content: "kept" };

function probeCalls(shows: ShowsCalls, format: CallFormat): CallAbility {
  const name = `${PROBE}_key`;
  for (const content of ["kept", "", null] as const) {
    if (shows(format.json ? `"${name}"` : name, [{ [name]: 1 }], content)) return { as: "object", content };
    if (shows(`"${name}"`, [`{"${name}": 1}`], content)) return { as: "text", content };
    if (shows(name, [{ [name]: 1 }], content)) return { as: "object", content };
  }
  return NO_CALLS;
}

function probeSeveral(shows: ShowsCalls, { as, content }: CallAbility): boolean {
  const all = [1, 2].map((i) => ({ [`${PROBE}_${i}`]: 1 })).map((args) => (as === "text" ? asText(args) : args));
  return shows(`${PROBE}_2`, all, content);
}

/** A turn with one call for each of these arguments, and its results. */
function turnsWithCalls(all: readonly unknown[], content: string | null): TemplateTurn[] {
  const calls = all.map((args, i) => ({
    id: `abcdefgh${i}`,
    type: "function" as const,
    function: { name: "f", arguments: args },
  }));
  const results = calls.map(({ id }) => ({ role: "tool", content: "done", name: "f", tool_call_id: id }));
  return [ASK, { role: "assistant", content, tool_calls: calls }, ...results];
}

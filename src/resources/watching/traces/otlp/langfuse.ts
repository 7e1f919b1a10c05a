/** Spans of Langfuse's SDK name their facts in their own way. Pure. */
import type { Attributes } from "./attributes.ts";

const PREFIX = "langfuse.observation.";
const OPERATIONS: Readonly<Record<string, string>> = {
  generation: "chat",
  embedding: "embeddings",
  tool: "execute_tool",
};

/** The same attributes, and those of the semantic conventions that follow from Langfuse's. Others stay as they are. */
export function withLangfuse(attributes: Attributes): Attributes {
  const operation = OPERATIONS[String(attributes[`${PREFIX}type`])];
  if (operation === undefined) return attributes;
  const usage = objectOf(attributes[`${PREFIX}usage_details`]);
  const parameters = Object.entries(objectOf(attributes[`${PREFIX}model.parameters`]));
  const model = attributes[`${PREFIX}model.name`];
  const derived: Record<string, unknown> = {
    "gen_ai.operation.name": operation,
    "gen_ai.provider.name": "langfuse",
    "gen_ai.request.model": model,
    "gen_ai.usage.input_tokens": usage["input"] ?? usage["input_tokens"] ?? usage["prompt_tokens"],
    "gen_ai.usage.output_tokens": usage["output"] ?? usage["output_tokens"] ?? usage["completion_tokens"],
    "gen_ai.usage.cost": objectOf(attributes[`${PREFIX}cost_details`])["total"],
    "gen_ai.input.messages": attributes[`${PREFIX}input`],
    "gen_ai.output.messages": attributes[`${PREFIX}output`],
    ...Object.fromEntries(parameters.map(([name, value]) => [`gen_ai.request.${name}`, value])),
  };
  const stated = Object.entries(derived).filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(stated), ...attributes };
}

/** Langfuse sends objects as JSON text. */
function objectOf(value: unknown): Record<string, unknown> {
  if (typeof value !== "string") return {};
  try {
    const parsed: unknown = JSON.parse(value);
    return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed) ? { ...parsed } : {};
  } catch {
    return {};
  }
}

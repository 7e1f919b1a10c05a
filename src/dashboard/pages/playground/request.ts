/** The settings of all columns, as text, and the request that they make. Pure. */
import type { Column } from "./columns.ts";
import type { SentMessage } from "./sent.ts";

export const FIELDS = ["system", "tools", "schema", "temperature", "max_tokens", "seed"] as const;
export type Fields = Record<(typeof FIELDS)[number], string>;

export const DEFAULTS: Fields = {
  system: "",
  tools: "",
  schema: "",
  temperature: "0.7",
  max_tokens: "1024",
  seed: "",
};

export type Wrong = Partial<Record<keyof Fields, string>>;

/** The mistake in each field, found before anything is sent. */
export function wrongOf({ tools, schema, temperature, max_tokens: most, seed }: Fields): Wrong {
  const wrong: Wrong = {};
  const parsed = jsonOf(tools);
  if (tools !== "" && !Array.isArray(parsed)) wrong.tools = "Write a JSON list of tools.";
  if (schema !== "" && (typeof jsonOf(schema) !== "object" || jsonOf(schema) === null))
    wrong.schema = 'Write a JSON schema, such as {"type": "object"}.';
  if (temperature === "" || !(Number(temperature) >= 0 && Number(temperature) <= 2))
    wrong.temperature = "Use a number from 0 to 2.";
  if (most !== "" && !(Number.isInteger(Number(most)) && Number(most) >= 1))
    wrong.max_tokens = "Use a whole number of at least 1, or leave it empty.";
  if (seed !== "" && !Number.isInteger(Number(seed))) wrong.seed = "Use a whole number, or leave it empty.";
  return wrong;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Tools as requests have them. People write the functions alone, too. */
export function toolsOf({ tools }: Pick<Fields, "tools">): object[] {
  const listed: unknown = tools === "" ? [] : jsonOf(tools);
  return (Array.isArray(listed) ? listed : [])
    .filter((tool): tool is object => typeof tool === "object" && tool !== null)
    .map((tool) => ("function" in tool ? tool : { type: "function", function: tool }));
}

/** The body of a chat request but for its model. An agent keeps its own settings where the page has none. */
export function bodyOf(fields: Fields, column: Column, messages: readonly SentMessage[]): Record<string, unknown> {
  const isOwn = (name: keyof Fields) => column.kind !== "agent" || fields[name] !== DEFAULTS[name];
  const tools = toolsOf(fields);
  const { temperature, max_tokens: most, seed, schema } = fields;
  return {
    messages,
    ...(isOwn("temperature") ? { temperature: Number(temperature) } : {}),
    ...(most !== "" && isOwn("max_tokens") ? { max_tokens: Number(most) } : {}),
    ...(seed === "" ? {} : { seed: Number(seed) }),
    ...(tools.length === 0 ? {} : { tools }),
    ...(schema === ""
      ? {}
      : { response_format: { type: "json_schema", json_schema: { name: "answer", schema: jsonOf(schema) } } }),
  };
}

/** Further fields of a request whose answer is shown as it grows. */
export const streamed = (isColoured: boolean) => ({
  stream: true,
  stream_options: { include_usage: true },
  ...(isColoured ? { logprobs: true, top_logprobs: 3 } : {}),
});

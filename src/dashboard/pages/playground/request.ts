/** The request of all columns, read from the address and written to it. */
import { queryOf, setQuery } from "../../shell/router.ts";

export const FIELDS = ["prompt", "system", "tools", "schema", "temperature", "max_tokens", "seed"] as const;
export type Fields = Record<(typeof FIELDS)[number], string>;

/** A server must read the address when the page is loaded again: a longer one is not written. */
const MOST_ADDRESS = 6_000;
const DEFAULTS: Partial<Fields> = { temperature: "0", max_tokens: "256" };

export const fieldsOfAddress = (): Fields =>
  Object.fromEntries(FIELDS.map((name) => [name, queryOf(name) ?? DEFAULTS[name] ?? ""])) as Fields;

/** False: the text is too long for a link. */
export function writeAddress(fields: Fields): boolean {
  const length = FIELDS.reduce((sum, name) => sum + encodeURIComponent(fields[name]).length, 0);
  if (length > MOST_ADDRESS) return false;
  setQuery(
    Object.fromEntries(FIELDS.map((name) => [name, fields[name] === DEFAULTS[name] ? undefined : fields[name]])),
  );
  return true;
}

export type Wrong = Partial<Record<keyof Fields, string>>;

/** The mistake in each field, found before anything is sent. */
export function wrongOf({ tools, schema, temperature, max_tokens: most, seed }: Fields): Wrong {
  const wrong: Wrong = {};
  const parsed = jsonOf(tools);
  if (tools !== "" && !Array.isArray(parsed)) wrong.tools = "Write a JSON list of tools.";
  if (schema !== "" && (typeof jsonOf(schema) !== "object" || jsonOf(schema) === null))
    wrong.schema = 'Write a JSON schema, such as {"type": "object"}.';
  if (!(Number(temperature) >= 0 && Number(temperature) <= 2)) wrong.temperature = "Use a number from 0 to 2.";
  if (!(Number.isInteger(Number(most)) && Number(most) >= 1)) wrong.max_tokens = "Use a whole number of at least 1.";
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

/** The body of the chat route. */
export function bodyOf({ prompt, system, tools, schema, temperature, max_tokens: most, seed }: Fields): object {
  const listed = tools === "" ? [] : (jsonOf(tools) as Record<string, unknown>[]);
  return {
    messages: [...(system === "" ? [] : [{ role: "system", content: system }]), { role: "user", content: prompt }],
    temperature: Number(temperature),
    max_tokens: Number(most),
    ...(seed === "" ? {} : { seed: Number(seed) }),
    ...(listed.length === 0
      ? {}
      : { tools: listed.map((tool) => ("function" in tool ? tool : { type: "function", function: tool })) }),
    ...(schema === ""
      ? {}
      : { response_format: { type: "json_schema", json_schema: { name: "answer", schema: jsonOf(schema) } } }),
    logprobs: true,
    top_logprobs: 3,
    stream: true,
    stream_options: { include_usage: true },
  };
}

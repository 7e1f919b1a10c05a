/** A handover of another page to the playground, and the address for it. Pure. */
import { type Column, keyOf } from "./columns.ts";

/** Everything is optional. What is absent is as on an empty playground. */
export type Handover = {
  /** One column for each. */
  columns?: readonly Column[] | undefined;
  /** The `model` of requests: deployments by name or id, checkpoints, jobs, agents, models. One column each. */
  models?: readonly string[] | undefined;
  /** Messages of a chat request as they were sent or stored, in order. The last answer may be among them. */
  messages?: readonly unknown[] | undefined;
  /** Text in the field for the next message. It is not sent yet. */
  prompt?: string | undefined;
  system?: string | null | undefined;
  tools?: readonly unknown[] | undefined;
  /** Other fields of a chat request: `temperature`, `max_tokens`, `seed`, `response_format`. */
  sampling?: Readonly<Record<string, unknown>> | undefined;
};

/** A server must read the address when the page is loaded again. */
const MOST_ADDRESS = 6_000;

/** An address of the playground for links. It has no messages, and no texts that are too long for it. */
export function playgroundHref({ columns, models, prompt, system, tools, sampling = {} }: Handover): string {
  const { temperature, max_tokens, max_completion_tokens, seed, response_format: format } = sampling;
  const query = new URLSearchParams();
  const add = (name: string, value: unknown) => {
    if (value === undefined || value === null || value === "") return;
    const text = typeof value === "string" || typeof value === "number" ? String(value) : JSON.stringify(value);
    if (query.toString().length + encodeURIComponent(text).length < MOST_ADDRESS) query.set(name, text);
  };
  add("cols", columns?.map(keyOf).join(","));
  add("models", columns === undefined ? models?.join(",") : undefined);
  add("temperature", temperature);
  add("max_tokens", max_completion_tokens ?? max_tokens);
  add("seed", seed);
  add("prompt", prompt);
  add("system", system);
  add("tools", tools?.length ? tools : undefined);
  add("schema", schemaOf(format));
  const text = query.toString();
  return text === "" ? "/playground" : `/playground?${text}`;
}

function schemaOf(format: unknown): unknown {
  const { json_schema: named } = (format ?? {}) as { json_schema?: { schema?: unknown } };
  return named?.schema;
}

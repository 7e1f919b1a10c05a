/** The form of an agent: its fields as text, and the request that they make. Pure. */
import { isObject } from "../../../lib/json/object.ts";
import type { Agent } from "../../../resources/serving/agents/schema.ts";

const FIGURES = { temperature: "temperature", top_p: "top_p", most: "max_completion_tokens", seed: "seed" } as const;
type Figure = keyof typeof FIGURES;

/** `turns` has no input: the next version keeps it. */
export type Form = Record<
  "name" | "description" | "deployment" | "prompt" | "tools" | "turns" | "more" | Figure,
  string
>;

export const EMPTY: Form = {
  name: "",
  description: "",
  deployment: "",
  prompt: "",
  tools: "",
  turns: "",
  more: "",
  temperature: "",
  top_p: "",
  most: "",
  seed: "",
};

const json = (value: unknown) => JSON.stringify(value, null, 2);

/** The newest version, to be changed into the next one. Fields without an input of their own are JSON in `more`. */
export function formOf({ name, description, deployment, system_prompt: prompt, tools, ...agent }: Agent): Form {
  const { sampling, max_turns: turns } = agent;
  const figures = Object.entries(FIGURES).map(([key, field]) => [key, textOf(sampling[field])]);
  const figureFields: readonly string[] = Object.values(FIGURES);
  const more = Object.fromEntries(Object.entries(sampling).filter(([field]) => !figureFields.includes(field)));
  return {
    ...EMPTY,
    name,
    deployment,
    description: description ?? "",
    prompt: prompt ?? "",
    tools: tools.length === 0 ? "" : json(tools),
    turns: textOf(turns),
    more: Object.keys(more).length === 0 ? "" : json(more),
    ...(Object.fromEntries(figures) as Pick<Form, Figure>),
  };
}

const textOf = (value: unknown) => (typeof value === "number" ? String(value) : "");

export type Faults = Partial<Record<keyof Form, string>>;

/** The mistakes that can be seen without the server. */
export function faultsOf({ tools, more, ...form }: Form): Faults {
  const faults: Faults = {};
  if (tools.trim() !== "" && !Array.isArray(parse(tools))) faults.tools = "Write a JSON list of tools.";
  if (more.trim() !== "" && !isObject(parse(more))) faults.more = 'Write a JSON object, such as {"stop": "END"}.';
  for (const key of Object.keys(FIGURES) as Figure[])
    if (form[key].trim() !== "" && !Number.isFinite(Number(form[key]))) faults[key] = "Write a number.";
  return faults;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function bodyOf(form: Form): object {
  const filled = (Object.keys(FIGURES) as Figure[]).filter((key) => form[key].trim() !== "");
  const figures = Object.fromEntries(filled.map((key) => [FIGURES[key], Number(form[key])]));
  const more = form.more.trim() === "" ? {} : (parse(form.more) as object);
  return {
    name: form.name.trim(),
    deployment: form.deployment,
    ...(form.description.trim() === "" ? {} : { description: form.description.trim() }),
    ...(form.prompt === "" ? {} : { system_prompt: form.prompt }),
    tools: form.tools.trim() === "" ? [] : parse(form.tools),
    sampling: { ...more, ...figures },
    ...(form.turns === "" ? {} : { max_turns: Number(form.turns) }),
  };
}

/** The field of the form for a pointer of the server's error. */
export function fieldOf(param: string | null): keyof Form | undefined {
  const [, first, second] = (param ?? "").split("/");
  if (first === "system_prompt") return "prompt";
  if (first === "sampling") return (Object.keys(FIGURES) as Figure[]).find((key) => FIGURES[key] === second) ?? "more";
  return first !== undefined && Object.hasOwn(EMPTY, first) ? (first as keyof Form) : undefined;
}

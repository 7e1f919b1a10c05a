/** The form of an evaluator: its fields as text, and the request that they make. Pure. */
import { errorText } from "../../../lib/error_text.ts";
import { isObject } from "../../../lib/json/object.ts";
import type { Evaluator } from "../../../resources/quality/evaluators/schema.ts";

type Kind = Evaluator["kind"];
export const KINDS: readonly (readonly [Kind, string])[] = [
  ["string_check", "Text check"],
  ["json_schema", "JSON schema"],
  ["code", "Code"],
  ["reward_function", "Reward function"],
  ["similarity", "Similarity of meaning"],
  ["llm_judge", "Model as judge"],
];

/** `value` empty: the reference of each row. `more`: settings without a field of their own, as JSON. */
export type Form = {
  kind: Kind;
  name: string;
  description: string;
  threshold: string;
  operation: string;
  value: string;
  ignoresCase: boolean;
  schema: string;
  source: string;
  reward: string;
  params: string;
  deployment: string;
  rubric: string;
  min: string;
  max: string;
  more: string;
};

const pretty = (value: unknown) => JSON.stringify(value, null, 2);

export const START: Form = {
  kind: "string_check",
  name: "",
  description: "",
  threshold: "",
  operation: "contains",
  value: "",
  ignoresCase: true,
  schema: pretty({ type: "object", required: ["answer"], properties: { answer: { type: "string" } } }),
  source:
    'def reward(prompt, completion, reference=None, **row):\n    """1 if the answer has the reference in it."""\n    return float(str(reference) in completion)\n',
  reward: "",
  params: "",
  deployment: "",
  rubric: "A good answer is right and short.",
  min: "1",
  max: "5",
  more: "",
};

/** Settings with a field of their own. */
const FIELDS: Readonly<Record<Kind, readonly string[]>> = {
  string_check: ["operation", "value", "ignore_case"],
  json_schema: ["schema"],
  code: ["source"],
  reward_function: ["reward_function", "params"],
  similarity: ["deployment"],
  llm_judge: ["deployment", "rubric", "scale"],
};

/** The newest version of an evaluator, to be changed into the next one. */
export function formOf({ name, kind, description, pass_threshold: threshold, config }: Evaluator): Form {
  const text = (field: string) => (config[field] === undefined || config[field] === null ? "" : String(config[field]));
  const json = (field: string) =>
    isObject(config[field]) && Object.keys(config[field]).length > 0 ? pretty(config[field]) : "";
  const more = Object.entries(config).filter(([field, value]) => !FIELDS[kind].includes(field) && value !== null);
  const scale = isObject(config["scale"]) ? config["scale"] : {};
  return {
    ...START,
    kind,
    name,
    description: description ?? "",
    threshold: threshold === null ? "" : String(threshold),
    operation: text("operation") || START.operation,
    value: text("value"),
    ignoresCase: config["ignore_case"] === true,
    schema: json("schema") || START.schema,
    source: text("source") || START.source,
    reward: text("reward_function"),
    params: json("params"),
    deployment: text("deployment"),
    rubric: text("rubric") || START.rubric,
    min: String(scale["min"] ?? START.min),
    max: String(scale["max"] ?? START.max),
    more: more.length === 0 ? "" : pretty(Object.fromEntries(more)),
  };
}

export type Made = { body: Record<string, unknown>; config: Record<string, unknown> } | { fault: string };

export function bodyOf(form: Form): Made {
  try {
    const config = { ...objectOf("Other settings", form.more), ...configOf(form) };
    const threshold = form.threshold.trim();
    if (threshold !== "" && !Number.isFinite(Number(threshold))) throw new Error("Passes from: write a number.");
    const body = {
      name: form.name.trim(),
      kind: form.kind,
      config,
      ...(form.description.trim() === "" ? {} : { description: form.description.trim() }),
      ...(threshold === "" ? {} : { pass_threshold: Number(threshold) }),
    };
    return { body, config };
  } catch (error) {
    return { fault: errorText(error) };
  }
}

function configOf(form: Form): Record<string, unknown> {
  switch (form.kind) {
    case "string_check":
      return {
        operation: form.operation,
        value: form.value === "" ? null : form.value,
        ignore_case: form.ignoresCase,
      };
    case "json_schema":
      return { schema: objectOf("Schema", form.schema) };
    case "code":
      return { source: form.source };
    case "reward_function":
      return { reward_function: form.reward, params: objectOf("Parameters", form.params) };
    case "similarity":
      return { deployment: form.deployment };
    case "llm_judge":
      return {
        deployment: form.deployment,
        rubric: form.rubric,
        scale: { min: Number(form.min), max: Number(form.max) },
      };
  }
}

function objectOf(label: string, text: string): Record<string, unknown> {
  if (text.trim() === "") return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error(`${label}: this is not JSON.`);
  }
  if (!isObject(value)) throw new Error(`${label}: write a JSON object, in braces.`);
  return { ...value };
}

/** The body that tries settings before they are stored. Undefined: this kind needs the stored evaluator. */
export function trialOf({ kind }: Form, config: Record<string, unknown>): Record<string, unknown> | undefined {
  if (kind === "code") return config;
  if (kind === "reward_function" && config["reward_function"] !== "")
    return { reward_functions: [{ id: config["reward_function"], params: config["params"] }] };
  if (kind === "json_schema") return { reward_functions: [{ id: "json_schema", params: config }] };
  return undefined;
}

type Row = Readonly<Record<string, unknown>>;

/** The columns that the code of a reward sees for a row of an evaluator. */
export const rewardRow = ({ input = "", output, reference, ...row }: Row, config: Record<string, unknown>): Row => ({
  ...(reference === undefined || reference === null ? {} : { reference, answer: reference }),
  ...(config["schema"] === undefined ? {} : { schema: config["schema"] }),
  ...row,
  prompt: input,
  completion: output,
});

/** The rows of a try. Throws with the line that is wrong. */
export const rowsOf = (text: string): Row[] =>
  text.split("\n").flatMap((line, i) => {
    if (line.trim() === "") return [];
    let row: unknown;
    try {
      row = JSON.parse(line);
    } catch {
      throw new Error(`Line ${i + 1} is not JSON.`);
    }
    if (!isObject(row) || typeof row["output"] !== "string")
      throw new Error(`Line ${i + 1}: write an object with the text output.`);
    return [{ ...row }];
  });

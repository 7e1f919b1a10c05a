/** The search over runs: words, and conditions such as `reward>0.8`, `learning_rate<=1e-4` or `tag:baseline`. Pure. */
import { datasetText } from "../words.ts";
import type { ListedRun } from "./columns.tsx";

const OPERATORS = {
  ">=": (a: number, b: number) => a >= b,
  "<=": (a: number, b: number) => a <= b,
  ">": (a: number, b: number) => a > b,
  "<": (a: number, b: number) => a < b,
  "=": (a: number, b: number) => a === b,
} as const;
type Operator = keyof typeof OPERATORS;

type Condition = { name: string; operator: Operator; value: string };
export type Search = { words: string[]; conditions: Condition[]; tags: string[]; groups: string[] };

const CONDITION = /^([\w./-]+?)(>=|<=|>|<|=)(\S+)$/;
const isOperator = (text: string): text is Operator => Object.hasOwn(OPERATORS, text);

export function searchOf(text: string): Search {
  const search: Search = { words: [], conditions: [], tags: [], groups: [] };
  for (const part of text.split(/\s+/).filter(Boolean)) {
    const [, name = "", operator = "", value = ""] = CONDITION.exec(part) ?? [];
    if (isOperator(operator)) search.conditions.push({ name, operator, value });
    else if (/^tag:./.test(part)) search.tags.push(part.slice(4).toLowerCase());
    else if (/^group:./.test(part)) search.groups.push(part.slice(6).toLowerCase());
    else search.words.push(part.toLowerCase());
  }
  return search;
}

/** Fields of the list route that the conditions need. */
export const fieldsOfSearch = ({ conditions }: Search): string[] =>
  conditions.flatMap(({ name }) => [`hyperparameters.${name}`, `latest_metrics.${name}`]);

export function isFound(run: ListedRun, { words, conditions, tags, groups }: Search): boolean {
  const has = (all: readonly string[], wanted: string) => all.some((each) => each.toLowerCase() === wanted);
  return (
    tags.every((tag) => has(run.tags, tag)) &&
    groups.every((group) => has(run.group === null ? [] : [run.group], group)) &&
    conditions.every((condition) => holds(run, condition)) &&
    (words.length === 0 || hasWords(run, words))
  );
}

function hasWords(run: ListedRun, words: readonly string[]): boolean {
  const { id, output_name, base_model, dataset, error, metadata, tags, group, notes } = run;
  const text = [
    ...[id, output_name, base_model, dataset ? datasetText(dataset) : "", dataset?.id, error?.message, group, notes],
    ...tags,
    ...Object.values(metadata),
  ]
    .join("\n")
    .toLowerCase();
  return words.every((word) => text.includes(word));
}

/** A run without the setting or metric does not fit. A name of both, such as learning_rate, means the setting. */
function holds({ hyperparameters, latest_metrics: metrics }: ListedRun, { name, operator, value }: Condition): boolean {
  const found = hyperparameters?.[name] ?? metrics?.[name];
  if (found === undefined || found === null) return false;
  const wanted = Number(value);
  if (typeof found === "number" && !Number.isNaN(wanted)) return OPERATORS[operator](found, wanted);
  return operator === "=" && String(found).toLowerCase() === value.toLowerCase();
}

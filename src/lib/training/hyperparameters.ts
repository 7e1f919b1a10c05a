/**
 * Reads hyperparameters as users give them. Strict, because a typo costs GPU hours; foreign_names.ts lists names that are
 * ignored. Every field may be "auto"; resolve.ts replaces it and absent fields.
 */

import { z } from "zod";
import { issueText } from "../text/issue.ts";
import { MOST_SUGGESTED } from "../text/nearest.ts";
import { FIELDS, type HyperparameterInput, LrSchedulerKwargs, METHODS, type Method } from "./fields.ts";
import { ALIASES, ELSEWHERE, IGNORED } from "./foreign_names.ts";
import { shortened, sortNames, suggestion } from "./names.ts";

/** A response lists at most this many problems: each unknown name costs a search for a similar one. */
export const MOST_PROBLEMS = MOST_SUGGESTED;

/** One problem. `path` begins with the field's name. */
export type Problem = { path: (string | number)[]; message: string };
/** `ignored`: names of TRL and Transformers without effect here. */
export type Read<M extends Method> =
  | { ok: true; given: HyperparameterInput<M>; ignored: string[] }
  | { ok: false; problems: Problem[] };

export function readHyperparameters<M extends Method>(method: M, raw: unknown): Read<M> {
  if (raw === undefined || raw === null) return { ok: true, given: {}, ignored: [] };
  if (typeof raw !== "object" || Array.isArray(raw))
    return { ok: false, problems: [{ path: [], message: "must be an object" }] };
  const fields: Record<string, z.ZodType> = FIELDS[method];
  const values: Record<string, unknown> = {};
  const names = Object.keys(fields);
  const sorted = sortNames(raw, { known: names, aliases: ALIASES, ignored: IGNORED[method] });
  const problems: Problem[] = [
    ...sorted.twice.map(({ from, name }) => ({
      path: [from],
      message: `is another name of ${name}: give one of them`,
    })),
    ...sorted.unknown
      .slice(0, MOST_PROBLEMS)
      .map((name) => ({ path: [shortened(name)], message: unknownMessage(method, name, names) })),
  ];
  for (const { name, from, value } of sorted.given) {
    if (problems.length >= MOST_PROBLEMS) break;
    const read = value === "auto" ? { success: true as const, data: value } : fields[name]!.safeParse(value);
    if (read.success) values[name] = read.data;
    else
      for (const issue of read.error.issues.slice(0, MOST_PROBLEMS))
        problems.push({ path: [from, ...place(issue)], message: words(issue) });
  }
  return problems.length > 0
    ? { ok: false, problems: problems.slice(0, MOST_PROBLEMS) }
    : { ok: true, given: values as HyperparameterInput<M>, ignored: sorted.ignored };
}

const place = (issue: z.core.$ZodIssue) => issue.path.map((part) => (typeof part === "number" ? part : String(part)));

function words(issue: z.core.$ZodIssue): string {
  if (issue.code !== "unrecognized_keys") return issueText(issue);
  const names = Object.keys(LrSchedulerKwargs.unwrap().shape);
  const keys = issue.keys.slice(0, MOST_PROBLEMS);
  return keys.map((key) => `unknown field: ${shortened(key)}${suggestion(key, names)}`).join("; ");
}

/** Does not repeat the name: the path has it. */
function unknownMessage(method: Method, name: string, names: readonly string[]): string {
  const elsewhere = Object.hasOwn(ELSEWHERE, name) ? ELSEWHERE[name] : undefined;
  if (elsewhere !== undefined) return elsewhere;
  const has = (other: Method) => Object.hasOwn(FIELDS[other], ALIASES[name] ?? name) || IGNORED[other].has(name);
  const owners = METHODS.filter(has);
  if (owners.length > 0) return `belongs to ${listed(owners)}, but this job uses ${method}`;
  return `is not a hyperparameter of ${method}${suggestion(name, names)}`;
}

const listed = (methods: readonly Method[]) =>
  methods.length === 1
    ? `the method ${methods[0]}`
    : `the methods ${methods.slice(0, -1).join(", ")} and ${methods.at(-1)}`;

/** The wire format for the OpenAPI document. `readHyperparameters` has better error messages. */
export const hyperparametersSchema = (method: Method) => {
  const entries = Object.entries(FIELDS[method]).map(([name, field]) => [
    name,
    z.union([field as z.ZodType, z.literal("auto")]).optional(),
  ]);
  return z.strictObject(Object.fromEntries(entries));
};

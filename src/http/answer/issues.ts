import { AppError } from "../../lib/errors.ts";
import { jsonPointer } from "../../lib/json/pointer.ts";
import { issueText } from "../../lib/text/issue.ts";

export type Issue = {
  path?: readonly PropertyKey[];
  message: string;
  code?: string;
  errors?: readonly (readonly Issue[])[];
  issues?: readonly Issue[];
};

const LONGEST_KEY = 100;
const LONGEST_MESSAGE = 1_000;
/** Names and messages may repeat the input: a key of a megabyte is not sent back. */
const cut = (text: string, longest: number) => (text.length > longest ? `${text.slice(0, longest)}…` : text);

/** A body that does not fit: `param` is a JSON pointer to the first bad field. */
export function schemaError(issue: Issue | undefined): AppError {
  const path = (issue?.path ?? []).map((key) => cut(String(key), LONGEST_KEY));
  const message = cut(issueText(issue), LONGEST_MESSAGE);
  const pointer = jsonPointer(path);
  return pointer
    ? new AppError("schema", `${path.join(".")}: ${message}`, { param: pointer })
    : new AppError("schema", `The body is not valid: ${message}`);
}

/**
 * A union reports only that no member fitted; the member that got deepest says what is really wrong. Where none got
 * inside the value, the union itself is named.
 */
export function deepest(issue: Issue): Issue {
  const members = (issue.errors ?? []).flatMap((list) => (list[0] ? [deepest(list[0])] : []));
  const best = members.sort((a, b) => (b.path?.length ?? 0) - (a.path?.length ?? 0))[0];
  if (best && (best.path?.length ?? 0) === 0) return issue;
  return best ? { ...best, path: [...(issue.path ?? []), ...(best.path ?? [])] } : issue;
}

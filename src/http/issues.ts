import { AppError } from "../lib/errors.ts";

export type Issue = { path?: readonly PropertyKey[]; message: string; errors?: readonly (readonly Issue[])[] };

/** A body that does not fit: `param` is a JSON pointer to the first bad field. */
export function schemaError(issue: Issue | undefined): AppError {
  const path = issue?.path ?? [];
  const message = issue?.message ?? "Invalid input";
  const pointer = path.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
  return pointer
    ? new AppError("schema", `${path.map(String).join(".")}: ${message}`, { param: pointer })
    : new AppError("schema", `The body does not fit: ${message}`);
}

/** A union reports only that no member fitted; the member that got deepest says what is really wrong. */
export function deepest(issue: Issue): Issue {
  const members = (issue.errors ?? []).flatMap((list) => (list[0] ? [deepest(list[0])] : []));
  const best = members.sort((a, b) => (b.path?.length ?? 0) - (a.path?.length ?? 0))[0];
  return best ? { ...best, path: [...(issue.path ?? []), ...(best.path ?? [])] } : issue;
}

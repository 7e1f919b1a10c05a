/** Routes of OpenAI that need a model of a kind that cannot be served here. Its clients read why. Pure. */
import { AppError } from "../../lib/errors.ts";

const KINDS: readonly [path: RegExp, what: string][] = [
  [/^\/v1\/audio\/(?:transcriptions|translations)$/, "hears audio"],
  [/^\/v1\/audio\/speech$/, "speaks"],
  [/^\/v1\/images\/(?:generations|edits|variations)$/, "makes images"],
  [/^\/v1\/moderations$/, "moderates texts"],
];

/** Undefined: OpenAI has no such route, or it is served. */
export function absentModel(path: string): AppError | undefined {
  const what = KINDS.find(([pattern]) => pattern.test(path))?.[1];
  if (what === undefined) return undefined;
  const message = `model: no model that ${what} can be served here: models read and write text`;
  return new AppError("resource_not_found", message, { param: "/model" });
}

/** A whole answer that matches a regular expression of the request. */
import { AppError } from "../../../lib/errors.ts";
import { UnsupportedPattern, wholeRule } from "./regex.ts";
import type { Rules } from "./rules.ts";

export function textRule(pattern: string, rules: Rules, at: string): string {
  try {
    return wholeRule(pattern, rules);
  } catch (cause) {
    if (!(cause instanceof UnsupportedPattern)) throw cause;
    const name = at.slice(1).replaceAll("/", ".");
    throw new AppError("schema", `${name}: this regular expression is not supported: ${cause.message}`, {
      param: at,
      cause,
    });
  }
}

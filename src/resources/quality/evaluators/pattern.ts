/** The patterns of string checks. */
import { EVALUATORS, PatternError } from "../patterns/parse.ts";
import { Patterns } from "../patterns/patterns.ts";

/** The error follows the name of a field. */
export function compilePattern(source: string, ignoreCase: boolean): Patterns | { error: string } {
  try {
    return new Patterns([source], EVALUATORS, { ignoreCase });
  } catch (error) {
    if (error instanceof PatternError) return { error: `is not a pattern that can be used: it ${error.message}` };
    throw error;
  }
}

/** A text or its tokens, or a list of either: the input of /completions and /embeddings. */
import { z } from "zod";

export type Texts = string | number[] | (string | number[])[];

type Rules = {
  most: number;
  /** Minimum length of a text. */
  minLength: 0 | 1;
};
type Fault = { path: number[]; message: string };

/**
 * A zod union would try all kinds on every element and keep each error. This function checks hundreds of thousands
 * of tokens once, up to the first error.
 */
export const textsSchema = (rules: Rules) =>
  z
    .unknown()
    .transform((value, { addIssue }): Texts => {
      const fault = faultOf(value, rules);
      if (fault === undefined) return value as Texts;
      addIssue({ code: "custom", ...fault });
      return z.NEVER;
    })
    .meta({ anyOf: documentOf(rules) });

const KINDS = "a string, a list of token ids, or a list of either";

function faultOf(value: unknown, { most, minLength }: Rules): Fault | undefined {
  if (typeof value === "string")
    return value.length < minLength ? { path: [], message: "must not be empty" } : undefined;
  if (!Array.isArray(value)) return { path: [], message: `must be ${KINDS}` };
  if (value.length === 0) return { path: [], message: "must not be an empty list" };
  if (typeof value[0] === "number") return tokensFault(value, []);
  if (typeof value[0] !== "string" && !Array.isArray(value[0])) return { path: [0], message: `must be ${KINDS}` };
  if (value.length > most) return { path: [], message: `must have at most ${most} entries` };
  for (const [i, each] of value.entries()) {
    if (typeof each === "string") {
      if (each.length < minLength) return { path: [i], message: "must not be empty" };
      continue;
    }
    if (!Array.isArray(each)) return { path: [i], message: "must be a string or a list of token ids" };
    if (each.length === 0) return { path: [i], message: "must not be an empty list" };
    const fault = tokensFault(each, [i]);
    if (fault) return fault;
  }
  return undefined;
}

function tokensFault(tokens: readonly unknown[], above: number[]): Fault | undefined {
  for (let i = 0; i < tokens.length; i++)
    if (!Number.isSafeInteger(tokens[i]) || (tokens[i] as number) < 0)
      return { path: [...above, i], message: "must be a token id" };
  return undefined;
}

function documentOf({ most, minLength }: Rules) {
  const text = minLength === 0 ? { type: "string" } : { type: "string", minLength };
  const tokens = { type: "array", minItems: 1, items: { type: "integer", minimum: 0 } };
  const listOf = (items: object) => ({ type: "array", minItems: 1, maxItems: most, items });
  return [text, tokens, listOf({ anyOf: [text, tokens] })];
}

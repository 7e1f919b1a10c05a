/** Prompts that fill a gap between two texts, for models that were trained with tokens for it. */
import { AppError } from "../../../lib/errors.ts";
import type { Engine } from "../engine/types.ts";
import { promptTokens } from "../prompt.ts";

/** The tokens before the text, before the suffix, and before the answer, in the families that have them. */
const MARKS: readonly (readonly [string, string, string])[] = [
  ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
  ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
  ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
  ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
  ["<PRE>", "<SUF>", "<MID>"],
];

type Tokenizer = Pick<Engine, "tokenize" | "facts">;

export function infillTokens(
  engine: Tokenizer,
  prefix: string | readonly number[],
  suffix: string,
  at: string,
): Int32Array {
  const marks = MARKS.map((names) => names.map((name) => engine.tokenize(name, { addBos: false, special: true })));
  const known = marks.find((tokens) => tokens.every((each) => each.length === 1));
  if (!known)
    throw new AppError("schema", "suffix: this model has no tokens to fill a gap with. Remove the field", {
      param: "/suffix",
    });
  const [before, after, middle] = known as [Int32Array, Int32Array, Int32Array];
  const plain = { addBos: false, special: false };
  const own = typeof prefix === "string" ? engine.tokenize(prefix, plain) : promptTokens(engine, prefix, at);
  const bos = engine.facts.addsBos ? engine.tokenize("", { addBos: true, special: false }) : [];
  return Int32Array.from([...bos, ...before, ...own, ...after, ...engine.tokenize(suffix, plain), ...middle]);
}

/** Compares the output with a text or a pattern: 1 or 0. */
import type { z } from "zod";
import { takingTurns } from "../../../../lib/turns.ts";
import type { StringCheckConfig } from "../config.ts";
import { type EvaluationItem, failed, scored, type Verdict } from "../item.ts";
import { compilePattern } from "../pattern.ts";

type Config = z.output<typeof StringCheckConfig>;

export async function stringCheck(
  config: Config,
  { items, signal }: { items: readonly EvaluationItem[]; signal: AbortSignal },
): Promise<Verdict[]> {
  const patterns: CompiledPatterns = new Map();
  const verdicts: Verdict[] = [];
  const turn = takingTurns();
  for (const item of items) {
    await turn();
    signal.throwIfAborted();
    const startedAt = performance.now();
    const answer = await check(config, item, patterns);
    const ms = performance.now() - startedAt;
    verdicts.push(typeof answer === "string" ? failed(answer, ms) : scored(answer ? 1 : 0, ms));
  }
  return verdicts;
}

type CompiledPatterns = Map<string, ReturnType<typeof compilePattern>>;

/** A string says why there is no answer. */
async function check(
  { operation, value, ignore_case: ignoreCase }: Config,
  { output, reference }: EvaluationItem,
  patterns: CompiledPatterns,
): Promise<boolean | string> {
  const wanted = value ?? reference ?? null;
  if (wanted === null) return "The row has no reference, and the evaluator has no value to compare with";
  if (operation === "regex") {
    const pattern = compiled(patterns, wanted, ignoreCase);
    return "error" in pattern ? `The reference ${pattern.error}` : pattern.occurIn(output);
  }
  const [text, part] = ignoreCase ? [output.toLowerCase(), wanted.toLowerCase()] : [output, wanted];
  if (operation === "equals") return text === part;
  return operation === "contains" ? text.includes(part) : text.startsWith(part);
}

function compiled(patterns: CompiledPatterns, source: string, ignoreCase: boolean) {
  const pattern = patterns.get(source) ?? compilePattern(source, ignoreCase);
  if (patterns.size < 100) patterns.set(source, pattern);
  return pattern;
}

/** Decides if a job samples exactly: the sampler's log-probabilities then equal the trainer's bit for bit. Pure. */
import { hasExactProducts } from "../../../native/cuda/exact_products.ts";

export type ExactFacts = {
  /** The field `exact_sampling`. Null: exact sampling where its cost was measured. */
  wanted: boolean | null;
  /** Null: every weight is trained. */
  lora: { dropout: number } | null;
  in4Bit: boolean;
  maxCompletionLength: number;
  /** Rollouts take several turns in an environment. */
  hasTurns: boolean;
  /** Why our own kernels do not draw from this model; null: they do. */
  notDrawn: string | null;
  /** Major version of the compute capability of each rank's GPU; null: the rank has none. */
  majors: readonly (number | null)[];
};

/**
 * Prompts and answers begin at multiples of 64 tokens in an exact batch, so a short answer has a gap behind it that is
 * computed too. Answers of 1 to 512 tokens take 1.1 times the tokens then, of 1 to 128 tokens 1.5 times.
 */
const LEAST_COMPLETION = 256;

/**
 * Exact attention reads the keys of a token one tile after another, so few long answers are drawn more slowly. On an H200 a
 * step took 1.22 times as long with 64 answers of 512 tokens, 1.16 times with 32 of 1,024. Longer ones were not measured.
 */
const MOST_COMPLETION = 1024;

/** Returns why the job does not sample exactly, or null if it does. */
export function reasonNotExact(facts: ExactFacts): string | null {
  if (facts.wanted === false) return "exact_sampling is false";
  return reasonImpossible(facts) ?? (facts.wanted ? null : reasonCostly(facts));
}

function reasonImpossible({ lora, in4Bit, hasTurns, notDrawn, majors }: ExactFacts): string | null {
  if (hasTurns) return "rollouts take several turns";
  if (!lora) return "all weights are trained, not an adapter";
  if (lora.dropout > 0) return `the adapter has a dropout of ${lora.dropout}`;
  if (in4Bit) return "load_in_4bit is true";
  if (majors.includes(null)) return "there is no GPU";
  if (notDrawn !== null) return `our kernels do not draw from this model: ${notDrawn}`;
  const areAlike = new Set(majors.map((major) => hasExactProducts(major!))).size === 1;
  return areAlike ? null : "the GPUs have different compute capabilities, which sum in different orders";
}

function reasonCostly({ majors, maxCompletionLength }: ExactFacts): string | null {
  const slow = majors.find((major) => !hasExactProducts(major!));
  if (slow !== undefined) return `it is slower on a GPU of compute capability ${slow}`;
  if (maxCompletionLength >= LEAST_COMPLETION && maxCompletionLength <= MOST_COMPLETION) return null;
  return `exact_sampling is null, which means exact only for a max_completion_length from ${LEAST_COMPLETION} to ${MOST_COMPLETION}`;
}

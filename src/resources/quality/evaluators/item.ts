/** Answers to be evaluated, and the results. Other resources use these types too. */

export type Message = { role: string; content: string };

export type EvaluationItem = {
  /** The prompt: a text or chat messages. */
  input: string | Message[];
  /** The answer that is evaluated. */
  output: string;
  reference?: string | null;
  /** A second answer for a pairwise judge. Without one, the reference takes its part. */
  other?: string | null;
  /** Further columns for code. */
  row?: Record<string, unknown>;
};

export type EvaluationResult = {
  /** Null if there is no score: see `error`. */
  score: number | null;
  label: string | null;
  /** Null if the evaluator has no pass_threshold, or there is no score. */
  passed: boolean | null;
  reason: string | null;
  error: string | null;
  latencyMs: number;
};

/** The result before the threshold decides `passed`. */
export type Verdict = Omit<EvaluationResult, "passed">;

export const scored = (score: number, latencyMs: number, more: Partial<Verdict> = {}): Verdict => ({
  score,
  label: null,
  reason: null,
  error: null,
  latencyMs,
  ...more,
});

export const failed = (error: string, latencyMs: number): Verdict => ({
  score: null,
  label: null,
  reason: null,
  error: error.slice(0, 2000),
  latencyMs,
});

/** The prompt as one text: messages with their roles. */
export const inputText = (input: EvaluationItem["input"]): string =>
  typeof input === "string" ? input : input.map(({ role, content }) => `${role}: ${content}`).join("\n\n");

/** The figures of one or several runs of an evaluator. */

/** Null: without a score, or without a decision. */
type Evaluated = { score: number | null; passed: boolean | null };

/** Rows without a score are in no mean. `pass_rate`: the share of the rows with a decision that passed. */
export function summaryOf(results: readonly Evaluated[]) {
  const scores = results.flatMap(({ score }) => (score === null ? [] : [score]));
  const decided = results.flatMap(({ passed }) => (passed === null ? [] : [passed]));
  return {
    count: results.length,
    scored: scores.length,
    failed: results.length - scores.length,
    mean: scores.length === 0 ? null : scores.reduce((sum, score) => sum + score, 0) / scores.length,
    pass_rate: decided.length === 0 ? null : decided.filter(Boolean).length / decided.length,
  };
}

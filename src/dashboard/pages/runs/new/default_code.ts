/** Reward code to begin with, for the columns of the chosen dataset. */
import { useEffect, useRef } from "preact/hooks";
import { REWARD } from "../../../../lib/training/sums.ts";
import type { RowList } from "../../../../resources/data/datasets/schema.ts";
import { api } from "../../../data/api.ts";

/** Columns that hold the right answer, the likeliest first. */
const ANSWERS = ["answer", "solution", "target", "label", "expected", "reference", "gold", "output", "completion"];
const NOT_ANSWERS = ["prompt", "messages", "system", "tools", "chosen", "rejected", "id", "source"];
const NAME = /^[a-z_][a-z0-9_]*$/i;
const KEYWORDS = /^(and|as|class|def|for|from|if|import|in|is|not|or|pass|with|completions|kwargs|self|text|right)$/;

const WITHOUT_ANSWER = `def reward(completions, **kwargs):
    """1 for an empty answer, 0 from 200 letters on: replace this by what you want."""
    return [max(0.0, 1 - len(text) / 200) for text in completions]
`;

/** Pure. `columns`: those of the first row. */
export function codeFor(columns: readonly string[]): string {
  const usable = columns.filter((name) => NAME.test(name) && !KEYWORDS.test(name));
  const column = ANSWERS.find((name) => usable.includes(name)) ?? usable.find((name) => !NOT_ANSWERS.includes(name));
  if (column === undefined) return WITHOUT_ANSWER;
  if (column === "answer") return REWARD;
  return `def reward(completions, ${column}, **kwargs):
    """1 for the text of the column ${column}, 0 for anything else."""
    return [float(text.strip() == str(right).strip()) for text, right in zip(completions, ${column})]
`;
}

/** True if the code is still as this page wrote it. */
export function isStart(code: string): boolean {
  const [, column] = /^def reward\(completions, (\w+), /.exec(code) ?? [];
  return [REWARD, ENVIRONMENT, codeFor(column === undefined ? [] : [column])].includes(code);
}

/** An environment to begin with: tools, and a reward at the end of a rollout of several turns. */
export const ENVIRONMENT = `class Task:
    def reset(self, **row):
        """Begins a rollout with the columns of its row."""
        self.right = row.get("answer")
        self.said = None

    def add(self, a: float, b: float) -> float:
        """
        Add two numbers.

        Args:
            a: The first number.
            b: The second number.
        """
        return a + b

    def submit(self, answer: str) -> str:
        """
        Hand in the answer.

        Args:
            answer: The answer.
        """
        self.said = answer
        return "The answer is handed in."

    def get_reward(self) -> float:
        return float(str(self.said).strip() == str(self.right).strip())
`;

type Code = { dataset: string; code: string; isWanted: boolean };

/** Fills in the code that fits the dataset, as long as the person has not written other code. */
export function useFittingCode({ dataset, code, isWanted }: Code, onCode: (code: string) => void) {
  const own = useRef(REWARD);
  useEffect(() => {
    if (dataset === "" || !isWanted || code !== own.current) return;
    const leave = new AbortController();
    const path = `/v1/datasets/${encodeURIComponent(dataset.split("@")[0] ?? "")}/rows?limit=1`;
    api<RowList>(path, { signal: leave.signal }).then(
      ({ data }) => {
        const [row] = data;
        if (!row?.data) return;
        own.current = codeFor(Object.keys(row.data));
        if (own.current !== code) onCode(own.current);
      },
      () => undefined, // the dry run says what is wrong with the dataset
    );
    return () => leave.abort();
  }, [dataset, isWanted]);
}

/** The end of the demo: the result of the training, and commands to repeat it. */

import { RECIPE, REWARD, SEED } from "../../lib/training/sums.ts";
import { columns } from "../output.ts";
import { type Answers, examples, percent, RESULT } from "./training.ts";

const EXAMPLES = 4;

export function resultLines(before: Answers, after: Answers): string[] {
  const rows = [
    ["", "before", "after"],
    ["correct answers to held-out questions", percent(before), percent(after)],
    ...examples(before, after, EXAMPLES).map((each) => [`  ${each.prompt}`, each.before, each.after]),
  ];
  return columns(rows, "   ");
}

/** Commands that repeat the training on a server of your own. */
export function repeatLines(): string[] {
  const settings = Object.entries(RECIPE).map(([name, value]) => `--set ${name}=${value}`);
  const half = Math.ceil(settings.length / 2);
  return [
    "verk serve &",
    "verk demo --rows > sums.jsonl",
    "cat > exact.py <<'END'",
    ...REWARD.trimEnd().split("\n"),
    "END",
    `verk jobs create --model verk-tiny --method grpo --dataset sums.jsonl --reward exact.py --output ${RESULT} \\`,
    `  --seed ${SEED} ${settings.slice(0, half).join(" ")} \\`,
    `  ${settings.slice(half).join(" ")} --watch`,
    `verk deploy ${RESULT}`,
    `verk chat ${RESULT} -m 'What is 47 + 8?' --temperature 0`,
    "verk detect IMAGE.jpg   # needs no server",
  ];
}

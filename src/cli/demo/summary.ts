/** The end of the demo: the result of the training, and commands to repeat it. */
import { columns } from "../output.ts";
import { RECIPE, REWARD, SEED } from "./task.ts";
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

const quoted = (value: unknown) => JSON.stringify(value).replaceAll("'", "'\\''");

/** Commands that repeat the training on another server. */
export function repeatLines(url: string): string[] {
  const job = {
    base_model: "verk-tiny",
    method: "grpo",
    output_name: RESULT,
    dataset: "DATASET",
    reward_source: REWARD,
    hyperparameters: RECIPE,
    seed: SEED,
  };
  const send = (path: string, body: unknown) =>
    `curl $VERK_URL${path} -H "Authorization: Bearer $VERK_API_KEY" -H 'Content-Type: application/json' -d '${quoted(body)}'`;
  const question = { model: RESULT, messages: [{ role: "user", content: "What is 47 + 8?" }], temperature: 0 };
  return [
    `verk serve &   # then: export VERK_URL=${url} VERK_API_KEY=$(verk keys create)`,
    "verk demo --rows > sums.jsonl",
    'curl $VERK_URL/v1/datasets -H "Authorization: Bearer $VERK_API_KEY" -F name=sums -F file=@sums.jsonl',
    send("/v1/training_jobs", job),
    send("/v1/deployments", { model: "JOB", name: RESULT }),
    send("/v1/chat/completions", question),
    "verk detect IMAGE.jpg   # needs no server",
  ];
}

/** Graders that ask a model, as judges of this server. Pure. */
import { AppError } from "../../../lib/errors.ts";
import { CreateEvaluator } from "../../quality/evaluators/schema.ts";
import { parsedAs } from "../call_model.ts";
import type { Criterion, ModelCriterion } from "./schema.ts";

const MAX_PROMPT = 19_000; // characters; a judge takes 20,000

export const asksModel = (criterion: Criterion): criterion is ModelCriterion => "model" in criterion;

/** The item is the reference of its row, as JSON. */
const NAMES: readonly [RegExp, string][] = [
  [/^sample\.output_text$/, "output"],
  [/^item$/, "reference"],
  [/^item\.([\w.]+)$/, "reference.$1"],
];

/** `at`: the place of the criterion. */
const refusal = (at: string, field: string, why: string) =>
  new AppError("schema", `${at.replaceAll("/", ".")}.${field}: ${why}`, { param: `/${at}/${field}` });

/** The messages become one text, because a judge reads one prompt. */
function promptOf({ input }: ModelCriterion, at: string): string {
  const text = input.map(({ content }) => (typeof content === "string" ? content : content.text)).join("\n\n");
  const prompt = text.replaceAll(/\{\{\s*([^{}]*?)\s*\}\}/g, (whole, name: string) => {
    const [from, to] = NAMES.find(([pattern]) => pattern.test(name)) ?? [];
    if (!from || to === undefined)
      throw refusal(at, "input", `${whole.slice(0, 80)} is unknown: use {{item.field}} or {{sample.output_text}}`);
    return `{{${name.replace(from, to)}}}`;
  });
  if (!prompt.includes("{{output}}"))
    throw refusal(at, "input", "must contain {{sample.output_text}}, the answer that is judged");
  if (prompt.length > MAX_PROMPT) throw refusal(at, "input", `is longer than ${MAX_PROMPT} characters`);
  return prompt;
}

const REASON = 'Reply with a JSON object: "reason": one short sentence, then';

export function judgeOf(criterion: ModelCriterion, at: string) {
  const common = { deployment: criterion.model, rubric: criterion.name };
  const prompt = promptOf(criterion, at);
  const judge = (config: object, passThreshold: number) => {
    const evaluator = parsedAs(CreateEvaluator, { name: "judge", kind: "llm_judge", config: { ...common, ...config } });
    if (evaluator.kind !== "llm_judge") throw new Error(`a judge became ${evaluator.kind}`);
    return { kind: evaluator.kind, config: evaluator.config, source: null, passThreshold };
  };
  if (criterion.type === "label_model") {
    const { labels, passing_labels: passing } = criterion;
    const stranger = passing.find((label) => !labels.includes(label));
    if (stranger !== undefined) throw refusal(at, "passing_labels", `${stranger} is not one of the labels`);
    const demand = `${REASON} "label": one of ${labels.map((label) => JSON.stringify(label)).join(", ")}.`;
    const scores = Object.fromEntries(labels.map((label) => [label, passing.includes(label) ? 1 : 0]));
    return judge({ mode: "labels", labels: scores, prompt: `${prompt}\n\n${demand}` }, 1);
  }
  const [min, max] = criterion.range ?? [0, 1];
  if (min >= max || min < -1000 || max > 1000)
    throw refusal(at, "range", "must be two rising numbers from -1000 to 1000");
  const { temperature, max_completions_tokens: tokens } = criterion.sampling_params ?? {};
  const demand = `${REASON} "score": a whole number from ${min} (worst) to ${max} (best).`;
  return judge(
    {
      mode: "score",
      scale: { min, max },
      prompt: `${prompt}\n\n${demand}`,
      ...(typeof temperature === "number" ? { temperature } : {}),
      ...(typeof tokens === "number" ? { max_tokens: tokens } : {}),
    },
    criterion.pass_threshold ?? max,
  );
}

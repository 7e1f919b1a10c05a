/** Evaluators as rewards of a training job. Code runs in the job's sandbox; the other kinds run in the server. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { combine, type Judged, type Scored } from "../../../lib/rewards/combine.ts";
import type { Outcome, Sample } from "../../../lib/rewards/contract.ts";
import type { RewardPart } from "../../../sandbox/reward/scorer_types.ts";
import { settingsOf } from "./config.ts";
import type { EvaluationItem, EvaluationResult, Message } from "./item.ts";
import { partOf } from "./kinds/code.ts";
import { run } from "./run.ts";
import { mustServe, resolve } from "./service.ts";
import type { EvaluatorReward } from "./table.ts";

/** `at`: JSON pointer to the entry of the request. */
type Reference = { id: string; weight: number; params: Record<string, unknown>; seed: number; at: string };

export function evaluatorReward(ctx: Ctx, workspaceId: string, reference: Reference): RewardPart | EvaluatorReward {
  const { id, weight, params, seed, at } = reference;
  const row = resolve(ctx, workspaceId, id, `${at}/id`);
  if (Object.keys(params).length > 0)
    throw new AppError("schema", `params: the evaluator ${row.name} has its own settings: leave params out`, {
      param: `${at}/params`,
    });
  const part = partOf(ctx, workspaceId, row);
  if (part) return { ...part, code: { ...part.code, seed }, weight };
  const settings = settingsOf(row);
  if (settings.kind === "similarity" || settings.kind === "llm_judge")
    mustServe(ctx, workspaceId, settings.config.deployment, `${at}/id`);
  const { name, version, kind, config, passThreshold } = row;
  return { weight, evaluator: { id: row.id, name, version, kind, config, passThreshold } };
}

type Batch = {
  workspaceId: string;
  rewards: readonly EvaluatorReward[];
  samples: readonly Sample[];
  signal: AbortSignal;
};

/** A sample without a score has a fault: the job counts it as an error of the reward. */
export async function scoreSamples(ctx: Ctx, { workspaceId, rewards, samples, signal }: Batch): Promise<Scored[]> {
  const items = samples.map(itemOf);
  const judged = await Promise.all(
    rewards.map(async ({ weight, evaluator }): Promise<Judged> => {
      const results = await run(ctx, workspaceId, evaluator, items, signal);
      return { name: evaluator.name, weight, outcomes: results.map(outcomeOf) };
    }),
  );
  return combine(distinct(judged), samples.length);
}

/** `helpful`, then `helpful#2` for a second reward of the same name. */
function distinct(judged: readonly Judged[]): Judged[] {
  const taken = new Set<string>();
  return judged.map((each) => {
    let { name } = each;
    for (let n = 2; taken.has(name); n++) name = `${each.name}#${n}`;
    taken.add(name);
    return { ...each, name };
  });
}

const outcomeOf = ({ score, error, latencyMs: ms }: EvaluationResult): Outcome =>
  score === null
    ? { value: null, fault: { kind: "exception", message: error ?? "no score", line: null }, ms }
    : { value: score, fault: null, ms };

/** The right answer is in the column reference, answer or completion of the row, if there is one. */
function itemOf({ prompt, completion, row }: Sample): EvaluationItem {
  const right = [row["reference"], row["answer"], row["completion"]].find(
    (each) => each !== undefined && each !== null,
  );
  return {
    input: Array.isArray(prompt) ? prompt.map(messageOf) : textOf(prompt),
    output: textOf(completion),
    reference: right === undefined ? null : textOf(right),
    row,
  };
}

const messageOf = (message: unknown): Message => {
  const { role, content } = (message ?? {}) as { role?: unknown; content?: unknown };
  return { role: typeof role === "string" ? role : "user", content: textOf(content) };
};

/** A text; the last of several messages; or the text parts of a message. */
function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return "";
  if (!Array.isArray(value)) return typeof value === "object" ? JSON.stringify(value) : String(value);
  const parts = value.filter((each) => typeof each === "object" && each !== null) as {
    text?: unknown;
    content?: unknown;
  }[];
  if (parts.some(({ text }) => typeof text === "string")) return parts.map(({ text }) => text ?? "").join("");
  return textOf(parts.at(-1)?.content);
}

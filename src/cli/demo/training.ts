/** Demo steps that train a model, deploy the result and measure it. */

import { formatDuration } from "../../lib/time.ts";
import {
  isRight,
  LORA,
  RECIPE,
  REWARD,
  type Row,
  SEED,
  splitRows,
  TRIAL_REWARDS,
  TRIALS,
} from "../../lib/training/sums.ts";
import type { JobValidation } from "../../resources/training/training_jobs/admission/validation_schema.ts";
import type { Client } from "../client.ts";
import type { Dataset } from "../datasets/find.ts";
import type { Job } from "../jobs/find.ts";
import { follow, type Viewer } from "../jobs/follow.ts";
import { shortNumber } from "../jobs/view.ts";
import { formOf } from "../transfer/form.ts";
import { untilServing } from "./serving.ts";

export const RESULT = "demo-sums";
const { train, heldOut } = splitRows();

type Reward = { results: { reward: number | null }[]; summary: unknown };
type Completion = { choices: { message: { content: string } }[] };
/** Answers to the held-out questions. */
export type Answers = { texts: string[]; right: number; share: number };

export async function pushTask(client: Client): Promise<{ id: string; detail: string }> {
  const bytes = new TextEncoder().encode(train.map((row) => `${JSON.stringify(row)}\n`).join(""));
  async function* chunks() {
    yield bytes;
  }
  const file = { name: "sums.jsonl", size: bytes.byteLength };
  const { headers, body: raw } = formOf({ fields: { name: "sums" }, file }, chunks());
  const { body } = await client.call<Dataset>("POST", "/v1/datasets", undefined, { headers, raw });
  return { id: body.id, detail: `${body.num_rows} rows such as "${train[0]?.prompt}"; ${heldOut.length} are held out` };
}

export async function tryReward(client: Client): Promise<string> {
  const { body } = await client.call<Reward>("POST", "/v1/reward_functions/run", { source: REWARD, rows: TRIALS });
  const rewards = body.results.map(({ reward }) => reward);
  if (rewards.join() !== TRIAL_REWARDS.join())
    throw new Error(`the rewards are ${rewards.join()}: ${JSON.stringify(body.summary)}`);
  return TRIALS.map(({ completion }, i) => `${JSON.stringify(completion)} ${rewards[i]}`).join(", ");
}

const jobBody = (dataset: string) => ({
  base_model: "verk-tiny",
  method: "grpo",
  output_name: RESULT,
  dataset,
  reward_source: REWARD,
  hyperparameters: RECIPE,
  lora: LORA,
  seed: SEED,
});

export async function tryOut(client: Client, dataset: string): Promise<string> {
  const { body } = await client.call<JobValidation>("POST", "/v1/training_jobs/validate", jobBody(dataset));
  if (!body.valid) throw new Error(`the job is not valid: ${body.errors.map(({ message }) => message).join("; ")}`);
  const { estimate, reward_preview: preview } = body;
  const time = estimate.duration_seconds === null ? [] : [`about ${formatDuration(estimate.duration_seconds * 1000)}`];
  const mean = preview?.mean == null ? [] : [`reward before training ${shortNumber(preview.mean)}`];
  return ["valid", ...time, ...mean].join(", ");
}

export async function startJob(client: Client, dataset: string): Promise<Job> {
  return (await client.call<Job>("POST", "/v1/training_jobs", jobBody(dataset))).body;
}

export async function untilTrained(client: Client, id: string, viewer: Viewer, signal: AbortSignal): Promise<string> {
  const last = await follow(client, id, viewer, signal);
  if (!last) throw new Error("interrupted");
  const { job, points } = last;
  if (job.status !== "completed")
    throw new Error(`the job is ${job.status}: ${job.error?.message ?? "the server gave no reason"}`);
  const rewards = points.map(({ values }) => values["reward"] ?? 0);
  return `${job.progress.step} steps, reward ${shortNumber(rewards[0] ?? 0)} → ${shortNumber(rewards.at(-1) ?? 0)}`;
}

export async function deployResult(client: Client, jobId: string, signal: AbortSignal) {
  const settings = { model: jobId, name: RESULT, parallel: 4, context_length: 512 };
  const { body } = await client.call<{ id: string }>("POST", "/v1/deployments", settings);
  const ms = await untilServing(client, body.id, signal);
  return { id: body.id, detail: `${body.id} serves after ${Math.round(ms)} ms` };
}

const AT_ONCE = 8;

/** Greedy decoding, so that the answers are the same each time. */
export async function answerAll(client: Client, model: string): Promise<Answers> {
  const texts: string[] = new Array(heldOut.length).fill("");
  const todo = [...heldOut.entries()];
  const work = async () => {
    for (let next = todo.shift(); next; next = todo.shift()) texts[next[0]] = await ask(client, model, next[1].prompt);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const right = texts.filter((text, i) => isRight(text, heldOut[i] as Row)).length;
  return { texts, right, share: right / heldOut.length };
}

export async function ask(client: Client, model: string, content: string): Promise<string> {
  const body = { model, messages: [{ role: "user", content }], temperature: 0, max_tokens: 48 };
  const { body: answer } = await client.call<Completion>("POST", "/v1/chat/completions", body);
  return answer.choices[0]?.message.content.trim() ?? "";
}

export const percent = ({ right, share }: Answers) => `${(share * 100).toFixed(1)} % (${right} of ${heldOut.length})`;

/** Questions that were answered wrong before and right after, at most `most`. */
export function examples(before: Answers, after: Answers, most: number) {
  return heldOut
    .map((row, i) => ({ ...row, before: before.texts[i] ?? "", after: after.texts[i] ?? "" }))
    .filter((each) => !isRight(each.before, each) && isRight(each.after, each))
    .slice(0, most);
}

/** The rewards of a new job, from `--reward FILE|NAME[:WEIGHT]` or from a job file. */
import { basename, resolve } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import type { RewardFunction } from "../../resources/training/reward_functions/schema.ts";
import { EXIT } from "../args.ts";
import type { Client } from "../client.ts";
import { note } from "../output.ts";
import { type Code, isCodeName, isFile, readCode } from "../rewards/input.ts";
import { rejectionText } from "../rewards/report.ts";
import { noFile } from "../transfer/source.ts";
import { type Body, type Inputs, rewardOf } from "./request.ts";

/** `code`: of a file. Without it, `id` names a built-in or uploaded reward function. */
export type Reward = { id: string; weight: number; params?: unknown; code: Code | undefined };

/** Reads the files, so that a missing one is noticed before anything is sent. */
export function readRewards({ values, from, dir }: Inputs["rewards"]): Promise<Reward[]> {
  const pathOf = (id: string) => (id === "-" ? id : resolve(dir, id));
  const split = (text: string) => (isFile(pathOf(text)) ? { id: text, weight: 1 } : rewardOf(text));
  return Promise.all(
    values.map(async ({ text, params, ...value }) => {
      const parts = split(text ?? value.id ?? "");
      const { id } = parts;
      const reward = { id, weight: value.weight ?? parts.weight, ...(params === undefined ? {} : { params }) };
      if (isFile(pathOf(id))) return { ...reward, code: await readCode(pathOf(id), undefined) };
      if (isCodeName(id)) throw new UsageError(noFile(from, id, dir), EXIT.failed);
      return { ...reward, code: undefined };
    }),
  );
}

/** One file without a weight is sent with the job. Otherwise each file is uploaded as a reward function first. */
export async function rewardFields(client: Client, rewards: readonly Reward[]): Promise<Body> {
  const files = rewards.filter(({ code }) => code !== undefined);
  const [only] = files;
  if (only?.code && files.length === 1 && only.weight === 1 && only.params === undefined) {
    const named = rewards.filter((each) => each !== only);
    const { source, language } = only.code;
    return { reward_source: source, reward_language: language, ...functionsOf(named) };
  }
  const uploaded: Reward[] = [];
  for (const each of rewards) uploaded.push(each.code ? await upload(client, each, each.code) : each);
  return functionsOf(uploaded);
}

const functionsOf = (rewards: readonly Reward[]): Body =>
  rewards.length === 0 ? {} : { reward_functions: rewards.map(({ code: _, ...each }) => each) };

async function upload(client: Client, reward: Reward, { name, source, language }: Code): Promise<Reward> {
  const { body } = await client.call<RewardFunction>("POST", "/v1/reward_functions", { name, source, language });
  if (body.error) {
    const { code: kind, ...error } = body.error;
    const text = rejectionText(basename(reward.id), source, { kind, ...error }, language);
    throw new UsageError(`--reward: ${text}`, EXIT.failed);
  }
  note(`${reward.id} is uploaded as reward function ${body.name}@${body.version}.`);
  return { ...reward, id: body.id };
}

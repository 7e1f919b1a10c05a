import { command, EXIT, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import { type Connection, connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { note, print, printJson } from "../output.ts";
import { readCode } from "../rewards/input.ts";
import { type Validation, validationLines } from "./dry_run.ts";
import type { Job } from "./find.ts";
import { watchJob } from "./follow.ts";
import { codeOf, datasetOf, readBody } from "./inputs.ts";
import { type Body, bodyOf } from "./request.ts";
import { readRewards, rewardFields } from "./rewards.ts";

const text = (value: string, doc: string) => ({ type: "string", value, doc }) as const;
const many = (value: string, doc: string) => ({ type: "string", value, doc, multiple: true }) as const;
const yes = (doc: string) => ({ type: "boolean", doc }) as const;

const FLAGS = {
  model: text("MODEL", "Model to train, by name, such as verk-tiny"),
  method: text("METHOD", "grpo, sft, dpo or custom"),
  dataset: text("FILE|DATASET", "JSON Lines file to upload, or a dataset by id or name; add @snap-3 for a snapshot"),
  "eval-dataset": text("FILE|DATASET", "Rows for evaluation only"),
  reward: many(
    "FILE|NAME[:WEIGHT]",
    "File with reward code, or a built-in or uploaded reward function by name; repeatable. Several files, or a file with a weight, are uploaded as reward functions",
  ),
  resolver: text(
    "FILE",
    "File with code that maps the rows before training: resolve(row) returns a row, a list or nothing",
  ),
  set: many("NAME=VALUE", "Hyperparameter, such as learning_rate=1e-4; repeatable"),
  lora: many("NAME=VALUE", "Setting of the LoRA adapter, such as r=16,alpha=32 (default r=16); repeatable"),
  full: yes("Train all weights instead of an adapter"),
  output: text("NAME", "Name of the trained model"),
  seed: text("N", "Random seed; the same seed repeats the training"),
  priority: text("LEVEL", "low, normal or high"),
  gpus: text("N", "Number of GPUs"),
  "max-runtime": text("TIME", "The job fails after this time, such as 2h"),
  "max-cost": text("USD", "The job fails when it has cost this much"),
  "save-steps": text("N", "Steps between checkpoints"),
  "keep-last": text("N", "Number of checkpoints to keep"),
  "resume-from": text("CHECKPOINT", "Start from the weights of this checkpoint (ckpt_…)"),
  clone: text("JOB", "Copy all settings that are not given from this job"),
  code: text("FILE|ARTIFACT", "Code of a job with --method custom: a .tar.gz or .zip to upload, or its id (art_…)"),
  command: text("TEXT", "Command of a job with --method custom"),
  secret: many("NAME", "Secret for a job with --method custom; repeatable"),
  volume: many("NAME:PATH", "Volume for a job with --method custom; repeatable"),
  publish: yes("List the job among the public runs"),
  file: text("FILE", "Settings of the job as JSON; flags override them"),
  "dry-run": yes("Check the job, estimate time and cost and try the reward, without training"),
  watch: yes("Watch the job until it ends"),
  ...SERVER_FLAGS,
  json: JSON_FLAG,
} as const;

/** Fields of the request and the flags that set them. */
const FIELDS = {
  base_model: "--model",
  output_name: "--output",
  dataset: "--dataset",
  dataset_id: "--dataset",
  reward_source: "--reward",
  reward_language: "--reward",
  reward_functions: "--reward",
  data_resolver_source: "--resolver",
  data_resolver_language: "--resolver",
  "hyperparameters/*": "--set *",
  hyperparameters: "--set",
  "lora/*": "--lora *",
  lora: "--lora",
  "gpu/gpu_count": "--gpus",
  max_runtime_minutes: "--max-runtime",
  max_cost_usd: "--max-cost",
  "checkpoint/save_steps": "--save-steps",
  "checkpoint/keep_last": "--keep-last",
  source_job: "--clone",
  code_artifact_id: "--code",
  secrets: "--secret",
  volumes: "--volume",
  dry_run: "--dry-run",
} as const;

export const create = command({
  summary: "Start a training job",
  flags: FLAGS,
  fields: FIELDS,
  examples: [
    "verk jobs create --model verk-tiny --method grpo --dataset sums.jsonl --reward accuracy.py --watch",
    "verk jobs create --model verk-tiny --method sft --dataset support --set num_train_epochs=2 --lora r=8",
    "verk jobs create --model verk-tiny --method grpo --dataset sums --reward right.py --reward short.ts:0.2",
    "verk jobs create --file job.json --dry-run",
  ],
  exits: {
    1: "failed: the job was rejected, is not valid (--dry-run) or did not complete (--watch)",
    [INTERRUPTED]: "interrupted: a job that was created continues on the server",
  },
  async run({
    dataset,
    "eval-dataset": evalDataset,
    reward,
    resolver,
    file,
    "dry-run": dryRun,
    watch,
    json,
    ...flags
  }) {
    const base = file === undefined ? {} : await readBody(file);
    const body: Body = bodyOf(flags, base);
    const rewards = await readRewards(reward);
    if (resolver !== undefined) Object.assign(body, await resolverFields(resolver));
    const { url, client } = await connect(flags);
    return await interruptible(async (signal) => {
      Object.assign(body, await rewardFields(client, rewards));
      if (dataset !== undefined) body["dataset"] = await datasetOf(client, dataset, signal);
      if (evalDataset !== undefined) body["eval_dataset"] = await datasetOf(client, evalDataset, signal);
      if (flags.code !== undefined) body["code_artifact_id"] = await codeOf(client, flags.code, signal);
      return dryRun
        ? await validate({ url, client }, body, json)
        : await start({ url, client }, { body, json, watch, signal });
    });
  },
});

async function resolverFields(path: string): Promise<Body> {
  const { source, language } = await readCode(path, undefined);
  return { data_resolver_source: source, data_resolver_language: language };
}

async function validate({ client }: Connection, body: Body, json: boolean): Promise<number> {
  const answer = await client.call<Validation>("POST", "/v1/training_jobs/validate", body);
  if (json) printJson(answer.body);
  else for (const line of validationLines(answer.body, { flags: FLAGS, fields: FIELDS })) print(line);
  return answer.body.valid ? EXIT.ok : EXIT.failed;
}

type Start = { body: Body; json: boolean; watch: boolean; signal: AbortSignal };

async function start({ client }: Connection, { body, json, watch, signal }: Start): Promise<number> {
  const { body: made } = await client.call<Job>("POST", "/v1/training_jobs", body);
  for (const { message } of made.warnings ?? []) note(`Warning: ${message}`);
  if (!watch) {
    if (json) printJson(made);
    else print(made.id);
    note(`Watch the job with \`verk jobs watch ${made.id}\`.`);
    return EXIT.ok;
  }
  if (!json) print(made.id);
  const last = await watchJob(client, made, signal);
  if (last && json) printJson(last.job);
  return !last ? INTERRUPTED : last.job.status === "completed" ? EXIT.ok : EXIT.failed;
}

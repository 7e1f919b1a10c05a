import { command, EXIT, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import { type Connection, connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { note, print, printJson } from "../output.ts";
import { type Validation, validationLines } from "./dry_run.ts";
import type { Job } from "./find.ts";
import { watchJob } from "./follow.ts";
import { datasetOf, readBody, rewardFields } from "./inputs.ts";
import { type Body, bodyOf } from "./request.ts";

const text = (value: string, doc: string) => ({ type: "string", value, doc }) as const;
const many = (value: string, doc: string) => ({ type: "string", value, doc, multiple: true }) as const;
const yes = (doc: string) => ({ type: "boolean", doc }) as const;

const FLAGS = {
  model: text("MODEL", "What is trained: a model's name, such as verk-tiny"),
  method: text("METHOD", "grpo, sft, dpo or custom"),
  dataset: text("FILE|DATASET", "A file of JSON lines (it is uploaded), or a dataset by id or name, with @snap-3"),
  "eval-dataset": text("FILE|DATASET", "Rows that are only measured on"),
  reward: many("FILE|NAME[:WEIGHT]", "Reward code, or a ready or uploaded reward by name; may be given again"),
  set: many("NAME=VALUE", "A hyperparameter, such as learning_rate=1e-4; may be given again"),
  lora: many("NAME=VALUE", "The adapter, such as r=16,alpha=32 (default r=16)"),
  full: yes("Train all weights instead of an adapter"),
  output: text("NAME", "Name of the trained model"),
  seed: text("N", "The same seed gives the same training"),
  priority: text("LEVEL", "low, normal or high"),
  gpus: text("N", "How many GPUs"),
  "max-runtime": text("TIME", "It fails after this long, such as 2h"),
  "max-cost": text("USD", "It fails when it has cost this much"),
  "save-steps": text("N", "Steps between checkpoints"),
  "keep-last": text("N", "How many checkpoints are kept"),
  "resume-from": text("CHECKPOINT", "Start from the weights of this checkpoint (ckpt_…)"),
  clone: text("JOB", "Take what is not given from this job"),
  code: text("ARTIFACT", "Code of a custom training (art_…)"),
  command: text("TEXT", "Command of a custom training"),
  secret: many("NAME", "A secret that a custom training sees; may be given again"),
  volume: many("NAME:PATH", "A volume that a custom training sees; may be given again"),
  publish: yes("Show it among the public runs"),
  file: text("FILE", "The body of the creation as JSON; flags stand over it"),
  "dry-run": yes("Check it, estimate it and try the reward; train nothing"),
  watch: yes("Watch it to its end"),
  ...SERVER_FLAGS,
  json: JSON_FLAG,
} as const;

export const create = command({
  summary: "Start a training",
  flags: FLAGS,
  examples: [
    "verk jobs create --model verk-tiny --method grpo --dataset sums.jsonl --reward accuracy.py --watch",
    "verk jobs create --model verk-tiny --method sft --dataset support --set num_train_epochs=2 --lora r=8",
    "verk jobs create --file job.json --dry-run",
  ],
  exits: {
    1: "failed: refused, not valid (--dry-run), or not completed (--watch)",
    [INTERRUPTED]: "interrupted: a job that was made goes on",
  },
  async run({ dataset, "eval-dataset": evalDataset, reward, file, "dry-run": dryRun, watch, json, ...flags }) {
    const given = file === undefined ? {} : await readBody(file);
    const body: Body = { ...bodyOf(flags, given), ...(await rewardFields(reward)) };
    const { url, client } = await connect(flags);
    return await interruptible(async (signal) => {
      if (dataset !== undefined) body["dataset"] = await datasetOf(client, dataset, signal);
      if (evalDataset !== undefined) body["eval_dataset"] = await datasetOf(client, evalDataset, signal);
      return dryRun
        ? await tryOut({ url, client }, body, json)
        : await start({ url, client }, { body, json, watch, signal });
    });
  },
});

async function tryOut({ client }: Connection, body: Body, json: boolean): Promise<number> {
  const answer = await client.call<Validation>("POST", "/v1/training_jobs/validate", body);
  if (json) printJson(answer.body);
  else for (const line of validationLines(answer.body)) print(line);
  return answer.body.valid ? EXIT.ok : EXIT.failed;
}

type Start = { body: Body; json: boolean; watch: boolean; signal: AbortSignal };

async function start({ client }: Connection, { body, json, watch, signal }: Start): Promise<number> {
  const { body: made } = await client.call<Job>("POST", "/v1/training_jobs", body);
  if (!watch) {
    if (json) printJson(made);
    else print(made.id);
    note(`Watch it with \`verk jobs watch ${made.id}\`.`);
    return EXIT.ok;
  }
  if (!json) print(made.id);
  const seen = await watchJob(client, made, signal);
  if (seen && json) printJson(seen.job);
  return !seen ? INTERRUPTED : seen.job.status === "completed" ? EXIT.ok : EXIT.failed;
}

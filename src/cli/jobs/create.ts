import { UsageError } from "../../lib/errors.ts";
import { METHODS } from "../../lib/training/fields.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import { ApiError, type Client } from "../client.ts";
import { type Connection, connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { note, print, printJson, printResult } from "../output.ts";
import { faultLines, type Validation, validationLines } from "./dry_run.ts";
import type { Job } from "./find.ts";
import { watchJob } from "./follow.ts";
import { resolverFields, uploadInputs } from "./inputs.ts";
import { type Fault, located, readJobFile } from "./job_file.ts";
import { type Body, flaggedOf, requestOf } from "./request.ts";
import { readRewards } from "./rewards.ts";
import { printSweep, splitSettings, type Trial, trialsOf, withTrial } from "./sweep.ts";

const text = (value: string, doc: string) => ({ type: "string", value, doc }) as const;
const one = (value: string, choices: readonly string[], doc: string) =>
  ({ type: "string", value, choices, doc }) as const;
const many = (value: string, doc: string) => ({ type: "string", value, doc, multiple: true }) as const;
const yes = (doc: string) => ({ type: "boolean", doc }) as const;

const FLAGS = {
  model: text("MODEL", "Model to train, by name, such as verk-tiny"),
  teacher: text("MODEL", "Model that a student learns from (--method distill), by name"),
  method: one("METHOD", [...METHODS, "custom"], "grpo, rloo, distill, sft, dpo, kto, orpo or custom"),
  dataset: text(
    "FILE|DATASET",
    "File of rows to upload (JSON, CSV, Parquet), or a dataset by id or name; add @snap-3 for a snapshot",
  ),
  "eval-dataset": text("FILE|DATASET", "Rows for evaluation only"),
  reward: many(
    "FILE|NAME[=WEIGHT]",
    "File with reward code, or a built-in or uploaded reward function by name; repeatable. Several files, or a file with a weight, are uploaded as reward functions",
  ),
  resolver: text(
    "FILE|NAME",
    "File with code that maps the rows before training: resolve(row) returns a row, a list or nothing. Or a stored data resolver by name, name@3 or id",
  ),
  set: many(
    "NAME=VALUE",
    "Hyperparameter, such as learning_rate=1e-4; repeatable. Several values, such as 1e-4,3e-4, are a sweep",
  ),
  sweep: many(
    "NAME=A,B,C",
    "One job for each value of a hyperparameter, in one group; repeatable, for each combination. With --watch a table at the end",
  ),
  lora: many("NAME=VALUE", "Setting of the LoRA adapter, such as r=16,alpha=32 (default r=16); repeatable"),
  full: yes("Train all weights instead of an adapter"),
  output: text("NAME", "Name of the trained model"),
  seed: text("N", "Random seed; the same seed repeats the training"),
  tag: many("TAG", "Tag to find the job by; repeatable"),
  notes: text("TEXT", "Notes of your own"),
  group: text("GROUP", "Jobs that belong together have the same group"),
  priority: one("LEVEL", ["low", "normal", "high"], "low, normal or high"),
  gpus: text("N", "Number of GPUs"),
  region: text("REGION", "Where the job runs, by name or id; local is this machine (default: the cheapest that fits)"),
  provider: text("PROVIDER", "Any region of this kind: local, ssh, slurm, or the name of a cloud"),
  "max-runtime": text("TIME", "The job fails after this time, such as 2h"),
  "max-cost": text("USD", "The job fails when it has cost this much"),
  "save-steps": text("N", "Steps between checkpoints"),
  "keep-last": text("N", "Number of checkpoints to keep"),
  "resume-from": text("CHECKPOINT", "Start from the weights of this checkpoint (ckpt_…)"),
  clone: text("JOB", "Copy all settings that are not given from this job"),
  code: text("FILE|ARTIFACT", "Code of a job with --method custom: a .tar.gz or .zip to upload, or its id (art_…)"),
  command: text("TEXT", "Command of a job with --method custom"),
  secret: many("NAME", "Secret for a job with --method custom; repeatable"),
  volume: many("NAME:PATH[:ro]", "Volume for a job with --method custom, :ro for reading only; repeatable"),
  memory: text("SIZE", "Memory of a job with --method custom, such as 6GiB"),
  cpus: text("N", "Processors of a job with --method custom"),
  disk: text("SIZE", "Size of /workspace of a job with --method custom, such as 20GiB"),
  "gpu-memory": text("SIZE", "Memory that a job with --method custom leases on each GPU (default: the whole GPU)"),
  network: text("none|guarded", "Network of a job with --method custom; guarded passes the guard of addresses"),
  env: many("NAME=VALUE", "Environment variable of a job with --method custom; repeatable"),
  publish: yes("List the job among the public runs"),
  "hub-repo": text("OWNER/REPO", "Push the result to this repository of the hub when the job completes"),
  "hub-variant": text("VARIANT", "What is pushed: adapter, merged or gguf (default: adapter for LoRA, else merged)"),
  "hub-public": yes("A new repository is visible to all (default: to its owner alone)"),
  file: text("FILE", "The same as the argument; - is standard input"),
  "dry-run": yes("Check the job, estimate time and cost and try the reward, without training"),
  watch: yes("Watch the job until it ends"),
  ...SERVER_FLAGS,
  json: JSON_FLAG,
} as const;

/** Fields of the request and the flags that set them. */
const FIELDS = {
  base_model: "--model",
  teacher_model: "--teacher",
  output_name: "--output",
  hub_repo: "--hub-repo",
  hub_variant: "--hub-variant",
  hub_private: "--hub-public",
  dataset: "--dataset",
  dataset_id: "--dataset",
  reward_source: "--reward",
  reward_language: "--reward",
  reward_functions: "--reward",
  data_resolver: "--resolver",
  data_resolver_source: "--resolver",
  data_resolver_language: "--resolver",
  "hyperparameters/*": "--set *",
  hyperparameters: "--set",
  "lora/*": "--lora *",
  lora: "--lora",
  "gpu/gpu_count": "--gpus",
  max_runtime_minutes: "--max-runtime",
  max_cost_usd: "--max-cost",
  tags: "--tag",
  "checkpoint/save_steps": "--save-steps",
  "checkpoint/keep_last": "--keep-last",
  source_job: "--clone",
  code_artifact_id: "--code",
  secrets: "--secret",
  volumes: "--volume",
  "resources/memory_mib": "--memory",
  "resources/cpus": "--cpus",
  "resources/disk_mib": "--disk",
  "resources/gpu_memory_mib": "--gpu-memory",
  "env/*": "--env *",
  env: "--env",
  dry_run: "--dry-run",
} as const;

export const create = command({
  summary:
    "Start a training job, from flags or from a file (YAML, TOML or JSON; a config of TRL too); flags override the file",
  takes: ["file?"],
  flags: FLAGS,
  fields: FIELDS,
  examples: [
    "verk jobs create --model verk-tiny --method grpo --dataset sums.jsonl --reward accuracy.py --watch",
    "verk jobs create --model verk-tiny --method sft --dataset support --set num_train_epochs=2 --lora r=8",
    "verk jobs create --model verk-tiny --method grpo --dataset sums --reward right.py --reward short.ts=0.2",
    "verk jobs create job.yaml --dry-run",
    "verk jobs create grpo.yaml --set learning_rate=2e-5 --output sums-2",
    "verk jobs create grpo.yaml --sweep learning_rate=1e-4,3e-4,1e-3 --output sums --watch",
    "verk jobs create --method custom --code code.tar.gz --command 'python3 train.py' --memory 6GiB --env EPOCHS=3",
  ],
  exits: {
    1: "failed: the job was rejected, is not valid (--dry-run) or did not complete (--watch)",
    [INTERRUPTED]: "interrupted: a job that was created continues on the server",
  },
  async run({ file: named, "dry-run": dryRun, watch, json, sweep: swept, ...others }, argument) {
    const { set, sweep } = splitSettings(others.set, swept);
    const flags = { ...others, set };
    if (argument !== undefined && named !== undefined)
      throw new UsageError("jobs create: give the file as the argument or with --file, not both");
    const path = argument ?? named;
    const file = path === undefined ? undefined : await readJobFile(path);
    const { body, inputs } = requestOf(file, flags);
    const trials = trialsOf(sweep);
    withTrial(body, trials[0] ?? {}); // a missing name is refused before anything is uploaded
    const rewards = await readRewards(inputs.rewards);
    for (const line of file?.notes ?? []) note(line);
    const flagged = flaggedOf(flags);
    const locate: Locate = (fault) => (file ? located(file, flagged, fault) : fault);
    const resolver = await resolverFields(inputs.resolver);
    const { url, client } = await connect(flags);
    return await interruptible(async (signal) => {
      const uploaded = await uploadInputs(client, { ...inputs, rewards }, signal);
      const requests = trials.map((trial) => withTrial({ ...body, ...resolver, ...uploaded }, trial));
      const [request = body] = requests;
      if (dryRun) return await eachOf(requests, (each) => validate({ url, client }, each, { json, locate }));
      if (sweep.length === 0) return await start({ url, client }, { body: request, json, watch, signal, locate });
      return await startSweep({ url, client }, { trials, requests, json, watch, signal, locate });
    });
  },
});

/** Adds the place in the job file that set the field of an error. */
type Locate = <E extends Fault>(fault: E) => E;
type Output = { json: boolean; locate: Locate };

async function validate({ client }: Connection, body: Body, { json, locate }: Output): Promise<number> {
  const answer = await client.call<Validation>("POST", "/v1/training_jobs/validate", body);
  const { errors, warnings } = answer.body;
  const result = { ...answer.body, errors: errors.map(locate), warnings: warnings.map(locate) };
  if (json) printJson(answer.body);
  else for (const line of validationLines(result, { flags: FLAGS, fields: FIELDS })) print(line);
  return answer.body.valid ? EXIT.ok : EXIT.failed;
}

/** A rejected creation names the first fault. A dry run collects them all; one that finds none tells nothing. */
const faultsOf = (client: Client, body: Body): Promise<Validation["errors"]> =>
  client.call<Validation>("POST", "/v1/training_jobs/validate", body).then(
    (answer) => answer.body.errors,
    () => [],
  );

/** The exit code of the first that failed. */
async function eachOf(requests: readonly Body[], act: (body: Body) => Promise<number>): Promise<number> {
  const codes: number[] = [];
  for (const body of requests) {
    if (requests.length > 1) note(String(body["output_name"]));
    codes.push(await act(body));
  }
  return codes.find((code) => code !== EXIT.ok) ?? EXIT.ok;
}

type Sweep = Output & { trials: readonly Trial[]; requests: readonly Body[]; watch: boolean; signal: AbortSignal };

const MOST_COMPARED = 6; // curves in one chart of the dashboard

/** All jobs wait in the queue at once. They are watched one after the other. */
async function startSweep(
  { url, client }: Connection,
  { trials, requests, json, watch, signal, locate }: Sweep,
): Promise<number> {
  const jobs: Job[] = [];
  for (const body of requests) jobs.push(await createJob(client, body, locate));
  if (!json) for (const { id } of jobs) print(id);
  const ids = jobs.map(({ id }) => id);
  note(`The curves: ${url}/runs/compare?ids=${ids.slice(0, MOST_COMPARED).join()}`);
  if (!watch) {
    if (json) printJson({ object: "list", data: jobs });
    return EXIT.ok;
  }
  const lasts: Job[] = [];
  for (const job of jobs) {
    const last = await watchJob(client, job, signal);
    if (!last) return INTERRUPTED;
    lasts.push(last.job);
  }
  if (json) printJson({ object: "list", data: lasts });
  else await printSweep(client, trials, ids);
  return lasts.every(({ status }) => status === "completed") ? EXIT.ok : EXIT.failed;
}

type Start = Output & { body: Body; watch: boolean; signal: AbortSignal };

async function createJob(client: Client, body: Body, locate: Locate): Promise<Job> {
  const { body: job } = await client.call<Job>("POST", "/v1/training_jobs", body).catch(async (error: unknown) => {
    if (!(error instanceof ApiError)) throw error;
    const { message, status, code, param, requestId } = error;
    const all = status === 400 || status === 422 ? await faultsOf(client, body) : [];
    if (all.length > 1)
      throw new UsageError(faultLines(all.map(locate), { flags: FLAGS, fields: FIELDS }), EXIT.failed);
    throw new ApiError(message, status, code, { ...locate({ message, param }), requestId, cause: error });
  });
  for (const { message } of job.warnings ?? []) note(`Warning: ${message}`);
  return job;
}

async function start({ client }: Connection, { body, json, watch, signal, locate }: Start): Promise<number> {
  const job = await createJob(client, body, locate);
  if (!watch) {
    printResult(json, job, { result: job.id });
    note(`Watch the job with \`verk jobs watch ${job.id}\`.`);
    return EXIT.ok;
  }
  if (!json) print(job.id);
  const last = await watchJob(client, job, signal);
  if (last && json) printJson(last.job);
  return !last ? INTERRUPTED : last.job.status === "completed" ? EXIT.ok : EXIT.failed;
}

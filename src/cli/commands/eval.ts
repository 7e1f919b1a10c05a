import { UsageError } from "../../lib/errors.ts";
import type { Evaluator } from "../../resources/quality/evaluators/schema.ts";
import type { Experiment } from "../../resources/quality/experiments/schema.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS, wholeOf } from "../args.ts";
import type { Client } from "../client.ts";
import { connect } from "../connect.ts";
import { allDeployments } from "../deployments.ts";
import { finish } from "../eval/show.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { allJobs } from "../jobs/find.ts";
import { datasetOf } from "../jobs/inputs.ts";
import { onlyOne, wholeId } from "../lists.ts";
import { note, printResult } from "../output.ts";
import { isFile, readCode } from "../rewards/input.ts";

const FLAGS = {
  dataset: {
    type: "string",
    value: "FILE|DATASET",
    doc: "Rows to answer: a JSON Lines file, or a dataset by id or name",
  },
  evaluator: {
    type: "string",
    value: "FILE|NAME",
    multiple: true,
    doc: "Scores the answers: a file of code (.py, .ts, .js), or an evaluator by id, name or name@3; repeatable",
  },
  outputs: {
    type: "string",
    value: "COLUMN",
    multiple: true,
    doc: "Compare also the answers that this column of the rows holds; repeatable",
  },
  baseline: { type: "string", value: "NAME", doc: "Target to compare with (default: the first model)" },
  name: { type: "string", value: "NAME", doc: "Name of the experiment" },
  "max-rows": { type: "string", value: "N", doc: "Use only the first N rows" },
  "max-tokens": { type: "string", value: "N", doc: "Longest answer in tokens (default: the rest of the context)" },
  temperature: { type: "string", value: "T", doc: "Sampling temperature (default 0)" },
  concurrency: { type: "string", value: "N", doc: "Items at once (default 4)" },
  regressions: { type: "boolean", doc: "List every row on which a target is worse than the baseline" },
  "no-wait": { type: "boolean", doc: "Return at once and print the id of the experiment" },
  ...SERVER_FLAGS,
  json: JSON_FLAG,
} as const;

export const evaluate = command({
  summary: "Compare models on a dataset, with margins of error",
  takes: ["model…"],
  flags: FLAGS,
  examples: [
    "verk eval verk-tiny sums --dataset held.jsonl --evaluator accuracy.py",
    "verk eval base tuned --dataset support@snap-3 --evaluator helpful --regressions",
  ],
  fields: {
    evaluators: "--evaluator",
    "targets/*": "model",
    "params/max_tokens": "--max-tokens",
    "params/temperature": "--temperature",
  },
  exits: {
    1: "failed: the experiment failed or was cancelled",
    [INTERRUPTED]: "interrupted: the experiment continues on the server",
  },
  async run(flags, ...models) {
    if (flags.dataset === undefined) throw new UsageError("eval: --dataset is missing: --dataset held.jsonl");
    if (flags.evaluator.length === 0) throw new UsageError("eval: --evaluator is missing: --evaluator accuracy.py");
    const { dataset } = flags;
    const options = optionsOf(flags);
    const { client } = await connect(flags);
    return await interruptible(async (signal) => {
      const targets: TargetBody[] = [];
      for (const model of models) targets.push(await targetOf(client, model));
      for (const field of flags.outputs) targets.push({ type: "outputs", field });
      const evaluators: string[] = [];
      for (const each of flags.evaluator) evaluators.push(await evaluatorOf(client, each));
      const body = { dataset: await datasetOf(client, dataset, "--dataset", signal), targets, evaluators, ...options };
      const { body: experiment } = await client.call<Experiment>("POST", "/v1/experiments", body, { signal });
      if (flags["no-wait"]) {
        printResult(flags.json, experiment, { result: experiment.id });
        return EXIT.ok;
      }
      return await finish(client, experiment, flags, signal);
    });
  },
});

type Options = {
  baseline?: string | undefined;
  name?: string | undefined;
  "max-rows"?: string | undefined;
  "max-tokens"?: string | undefined;
  temperature?: string | undefined;
  concurrency?: string | undefined;
};

/** Only the given fields, so that the server's defaults apply to the rest. */
function optionsOf(flags: Options): Record<string, unknown> {
  const withoutUndefined = (fields: Record<string, unknown>) =>
    Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  const params = withoutUndefined({
    max_tokens: wholeOf("max-tokens", flags["max-tokens"]),
    temperature: temperatureOf(flags),
  });
  return withoutUndefined({
    baseline: flags.baseline,
    name: flags.name,
    max_rows: wholeOf("max-rows", flags["max-rows"]),
    concurrency: wholeOf("concurrency", flags.concurrency),
    params: Object.keys(params).length === 0 ? undefined : params,
  });
}

function temperatureOf({ temperature: text }: Options): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d+(\.\d+)?$/.test(text))
    throw new UsageError(`--temperature: expected a number such as 0.7, not ${JSON.stringify(text)}`);
  return Number(text);
}

type TargetBody = { type: string } & Record<string, unknown>;

/** A deployment, a job (`sums`, `job_…` or `job_…@ckpt_…`), or a base model. An active deployment of the name goes first. */
async function targetOf(client: Client, text: string): Promise<TargetBody> {
  if (text.startsWith("dep_"))
    return { type: "deployment", deployment: await wholeId(text, () => allDeployments(client)) };
  const [name = "", checkpoint = null] = text.split(/@(?=ckpt_)/);
  if (name.startsWith("job_"))
    return { type: "checkpoint", job: await wholeId(name, () => allJobs(client)), checkpoint };
  const isActive = ({ status }: { status: string }) => status !== "stopped" && status !== "failed";
  if ((await allDeployments(client)).some((each) => each.name === text && isActive(each)))
    return { type: "deployment", deployment: text };
  const named = (await allJobs(client)).filter((each) => each.output_name === name && each.status === "completed");
  const job = onlyOne(named, "completed jobs", name);
  return job ? { type: "checkpoint", job: job.id, checkpoint, name: text } : { type: "model", model: text };
}

/** The id of an evaluator. A file of code becomes an evaluator first; the same code is stored once. */
async function evaluatorOf(client: Client, text: string): Promise<string> {
  if (!isFile(text)) {
    if (/\.(py|ts|js|mjs)$/i.test(text)) throw new UsageError(`--evaluator: there is no file ${text}`, EXIT.failed);
    return text;
  }
  const { name, source, language } = await readCode(text, undefined);
  const config = { source, language };
  const { status, body } = await client.call<Evaluator>("POST", "/v1/evaluators", { name, kind: "code", config });
  if (status === 201) note(`${text} is stored as evaluator ${body.name}@${body.version}.`);
  return body.id;
}

import { UsageError } from "../../lib/errors.ts";
import type { Experiment } from "../../resources/quality/experiments/schema.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS, wholeOf } from "../args.ts";
import { connect } from "../connect.ts";
import { evaluatorOf, type TargetBody, targetOf } from "../eval/inputs.ts";
import { finish } from "../eval/show.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { datasetOf } from "../jobs/inputs.ts";
import { printResult } from "../output.ts";

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
      const { body: made } = await client.call<Experiment>("POST", "/v1/experiments", body, { signal });
      if (flags["no-wait"]) {
        printResult(flags.json, made, { result: made.id });
        return EXIT.ok;
      }
      return await finish(client, made, flags, signal);
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
  const given = (fields: Record<string, unknown>) =>
    Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  const params = given({ max_tokens: wholeOf("max-tokens", flags["max-tokens"]), temperature: temperatureOf(flags) });
  return given({
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

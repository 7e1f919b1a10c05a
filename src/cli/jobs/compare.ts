import { UsageError } from "../../lib/errors.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import { connect } from "../connect.ts";
import { printJson, printTable } from "../output.ts";
import { type JobDetails, mustFind } from "./find.ts";
import { costOf, dataOf, pointsOf, settingText, timeOf } from "./get.ts";
import { headlineOf, type Point, seriesOf, shortNumber, sparkline, stepOf } from "./view.ts";

const MOST_JOBS = 8;
const CURVE = 16;

export const compare = command({
  summary: "Compare jobs: results, curves, cost, and the settings in which they differ",
  takes: ["job", "job…"],
  flags: { ...SERVER_FLAGS, all: { type: "boolean", doc: "Show equal settings too" }, json: JSON_FLAG },
  examples: ["verk jobs compare sums sums-2", "verk jobs compare job_… job_… --all"],
  exits: { 1: "failed: there is no such job" },
  async run({ json, all, ...where }, ...targets) {
    if (targets.length > MOST_JOBS) throw new UsageError(`jobs compare: at most ${MOST_JOBS} jobs can be compared`);
    const { client } = await connect(where);
    const runs = await Promise.all(
      targets.map(async (target) => {
        const job = await mustFind(client, target);
        return { job, points: await pointsOf(client, job) };
      }),
    );
    const settings = settingsOf(runs.map(({ job }) => job)).filter(({ differs }) => differs || all);
    if (json) printJson(comparisonOf(runs, settings));
    else printTable(["", ...runs.map(({ job }) => job.output_name)], [...resultRows(runs), ...rowsOf(settings)], "");
    return EXIT.ok;
  },
});

type Run = { job: JobDetails; points: readonly Point[] };
type Setting = { name: string; values: unknown[]; differs: boolean };

function resultRows(runs: readonly Run[]): string[][] {
  const row = (name: string, cell: (run: Run) => string | null) => [name, ...runs.map((run) => cell(run) ?? "-")];
  const headlines = [...new Set(runs.map(({ job }) => headlineOf(job.method)))];
  return [
    row("id", ({ job }) => job.id),
    row("status", ({ job }) => job.status),
    row("step", ({ job }) => stepOf(job)),
    ...[...new Set([...headlines, "loss"])].flatMap((key) => [
      row(`${key}, first`, ({ points }) => numberOf(seriesOf(points, key)[0])),
      row(`${key}, last`, ({ points }) => numberOf(seriesOf(points, key).at(-1))),
      row("", ({ points }) => sparkline(seriesOf(points, key), CURVE)),
    ]),
    row("time", ({ job }) => timeOf(job)),
    row("cost", ({ job }) => costOf(job)),
  ];
}

const numberOf = (value: number | undefined) => (value === undefined ? null : shortNumber(value));

const rowsOf = (settings: readonly Setting[]): string[][] =>
  settings.map(({ name, values }) => [
    name,
    ...values.map((value) => (value === undefined ? "-" : settingText(value))),
  ]);

/** Every setting by name, with one value for each job. */
function settingsOf(jobs: readonly JobDetails[]): Setting[] {
  const bags = jobs.map((job): Record<string, unknown> => {
    const { method, base_model, dataset, eval_dataset, reward_language, reward_functions, seed, resume_from } = job;
    const lora = Object.entries(job.lora ?? { r: null }).map(([name, value]) => [`lora ${name}`, value]);
    return {
      method,
      base_model,
      dataset: dataset && dataOf(dataset),
      eval_dataset: eval_dataset && dataOf(eval_dataset),
      reward_language,
      reward_functions,
      seed,
      resume_from,
      ...job.hyperparameters,
      ...Object.fromEntries(lora),
    };
  });
  return [...new Set(bags.flatMap((bag) => Object.keys(bag)))].map((name) => {
    const values = bags.map((bag) => bag[name]);
    return { name, values, differs: new Set(values.map((value) => JSON.stringify(value))).size > 1 };
  });
}

const comparisonOf = (runs: readonly Run[], settings: readonly Setting[]) => ({
  object: "training_job.comparison",
  jobs: runs.map(({ job, points }) => {
    const series = seriesOf(points, headlineOf(job.method));
    const { id, output_name, status, progress, cost_usd, energy_wh, started_at, completed_at } = job;
    const headline = { name: headlineOf(job.method), first: series[0] ?? null, last: series.at(-1) ?? null };
    return { id, output_name, status, progress, headline, cost_usd, energy_wh, started_at, completed_at };
  }),
  settings: Object.fromEntries(settings.map(({ name, values }) => [name, values.map((value) => value ?? null)])),
});

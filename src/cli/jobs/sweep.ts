/** A sweep: one job for each value of a setting, and one table of them at the end. */
import { UsageError } from "../../lib/errors.ts";
import type { Client } from "../client.ts";
import { printTable } from "../output.ts";
import { type Job, mustFind } from "./find.ts";
import { pointsOf } from "./get.ts";
import { type Body, pairsOf } from "./request.ts";
import { headlineOf, seriesOf, shortNumber, sparkline, stepOf } from "./view.ts";

const MOST_JOBS = 64;
const CURVE = 24;

/** One job of a sweep: its settings as they were typed, by name. */
export type Trial = Readonly<Record<string, string>>;

/** `learning_rate=1e-4,1e-3` and `beta=0,0.1` → four trials. Without flags there is one, which sets nothing. */
export function trialsOf(flags: readonly string[]): Trial[] {
  let trials: Trial[] = [{}];
  for (const flag of flags) {
    const [, name, list = ""] = /^([A-Za-z_]\w*)=(.*)$/s.exec(flag) ?? [];
    const values = list.split(",").map((value) => value.trim());
    if (name === undefined || values.length < 2 || values.includes(""))
      throw new UsageError(`--sweep: expected NAME=VALUE,VALUE…, not ${JSON.stringify(flag)}`);
    trials = trials.flatMap((trial) => values.map((value) => ({ ...trial, [name]: value })));
  }
  if (trials.length > MOST_JOBS)
    throw new UsageError(`--sweep: these are ${trials.length} jobs; a sweep has at most ${MOST_JOBS}`);
  return trials;
}

/** Several values without spaces, quotes or brackets: a list of JSON and a sentence are one value. */
const SEVERAL = /^[A-Za-z_]\w*=[^\s,"'[\]{}]+(,[^\s,"'[\]{}]+)+$/;

/** `--set NAME=A,B` is a sweep, as `--sweep NAME=A,B`. */
export function splitSettings(set: readonly string[], sweep: readonly string[]): { set: string[]; sweep: string[] } {
  const isSweep = (flag: string) => SEVERAL.test(flag);
  return { set: set.filter((flag) => !isSweep(flag)), sweep: [...set.filter(isSweep), ...sweep] };
}

/** The request of one trial. Its output is named after the values, and the group holds the sweep together. */
export function withTrial(body: Body, trial: Trial): Body {
  const values = Object.entries(trial);
  if (values.length === 0) return body;
  const output = body["output_name"];
  if (typeof output !== "string") throw new UsageError("--sweep: name the results with --output");
  const suffix = values.map(([, value]) => value.replaceAll(/[^\w.-]/g, "-")).join("-");
  const settings = body["hyperparameters"];
  return {
    ...body,
    output_name: `${output}-${suffix}`,
    group: body["group"] ?? output,
    hyperparameters: {
      ...(typeof settings === "object" ? settings : {}),
      ...pairsOf(
        "sweep",
        values.map(([name, value]) => `${name}=${value}`),
      ),
    },
  };
}

/** Prints a line for each job: its values, its state, its figure and its curve. */
export async function printSweep(client: Client, trials: readonly Trial[], ids: readonly string[]): Promise<void> {
  const jobs: { job: Job; cells: string[] }[] = [];
  for (const [i, id] of ids.entries()) {
    const job = await mustFind(client, id);
    const series = seriesOf(await pointsOf(client, job), headlineOf(job.method));
    const [first, last] = [series[0], series.at(-1)].map((value) => (value === undefined ? "-" : shortNumber(value)));
    const cells = [...Object.values(trials[i] ?? {}), job.status, stepOf(job), first ?? "-", last ?? "-"];
    jobs.push({ job, cells: [job.output_name, ...cells, sparkline(series, CURVE)] });
  }
  const figure = jobs[0] ? headlineOf(jobs[0].job.method) : "";
  const names = Object.keys(trials[0] ?? {});
  printTable(
    ["job", ...names, "status", "step", `${figure}, first`, "last", "curve"],
    jobs.map(({ cells }) => cells),
    "",
  );
}

import { formatUsd } from "../../lib/money.ts";
import { formatDuration } from "../../lib/time.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import type { Client } from "../client.ts";
import { connect } from "../connect.ts";
import { columns, plain, print, printJson, terminalWidth } from "../output.ts";
import { lines } from "../text/help.ts";
import { type JobDetails, mustFind, pathOf } from "./find.ts";
import { headlineOf, type Point, seriesOf, shortNumber, sparkline, stepOf, waitingFor } from "./view.ts";

type Event = { created_at: string; level: string; type: string; message: string };

export const get = command({
  summary: "Show a job: its settings, curves, cost and events",
  takes: ["job"],
  flags: { ...SERVER_FLAGS, json: JSON_FLAG },
  examples: ["verk jobs get job_…", "verk jobs get sums --json"],
  exits: { 1: "failed: there is no such job" },
  async run({ json, ...where }, target = "") {
    const { client } = await connect(where);
    const job = await mustFind(client, target);
    if (json) {
      printJson(job);
      return EXIT.ok;
    }
    for (const line of columns(factsOf(job, await pointsOf(client, job), terminalWidth() ?? 100))) print(plain(line));
    const { body } = await client.call<{ data: Event[] }>("GET", pathOf(job.id, "/events?limit=20"));
    if (body.data.length > 0) print("\nEvents:");
    for (const { created_at, level, message } of body.data.toReversed())
      print(plain(`${created_at}  ${level === "info" ? "" : `${level}: `}${message}`));
    return EXIT.ok;
  },
});

/** Metrics for curves. `max_points` keeps the answer small; a curve has 40 columns. */
export async function pointsOf(client: Client, { id, method }: JobDetails): Promise<Point[]> {
  const query = new URLSearchParams({ keys: curvesOf(method).join(","), max_points: "400" });
  return (await client.call<{ data: Point[] }>("GET", pathOf(id, `/metrics?${query}`))).body.data;
}

/** The headline first, then the loss, each also on the rows for evaluation. */
const curvesOf = (method: JobDetails["method"]): string[] => [
  ...new Set([headlineOf(method), "loss"].flatMap((key) => [key, `eval_${key}`])),
];

const NAME_WIDTH = 17;

/** One fact a row. A long value goes on in the next row, which has no name. */
export function factsOf(job: JobDetails, points: readonly Point[], width: number): [string, string][] {
  const wrapped = (name: string, words: readonly string[]): [string, string][] =>
    lines(words, Math.max(20, width - NAME_WIDTH)).map((line, i) => [i === 0 ? name : "", line]);
  const facts: [string, string | null][] = [
    ["id", job.id],
    ["result", job.output_name],
    ["status", statusOf(job)],
    ["method", job.method],
    ["model", job.base_model],
    ["begins from", job.resume_from],
    ["data", job.dataset && dataOf(job.dataset)],
    ["evaluation data", job.eval_dataset && dataOf(job.eval_dataset)],
    ["rewards", rewardsOf(job)],
    ["step", stepOf(job)],
    ...curvesOf(job.method).map((key): [string, string | null] => [key, curveOf(seriesOf(points, key))]),
    ["best checkpoint", job.best_checkpoint_id && `${job.best_checkpoint_id}, by ${job.best_by}`],
    ["device", job.gpu && (job.gpu.count === 1 ? job.gpu.type : `${job.gpu.count} × ${job.gpu.type}`)],
    ["region", regionOf(job)],
    ["time", timeOf(job)],
    ["cost", costOf(job)],
    ["tags", job.tags.length === 0 ? null : job.tags.join(", ")],
    ["group", job.group],
    ["notes", job.notes === "" ? null : job.notes],
    ["created", job.created_at],
    ["seed", String(job.seed)],
  ];
  return [
    ...facts.filter((fact): fact is [string, string] => fact[1] !== null),
    ...wrapped("hyperparameters", pairsOf(job.hyperparameters)),
    ...(job.lora === null ? [] : wrapped("lora", pairsOf(job.lora))),
  ];
}

function statusOf(job: JobDetails): string {
  const why = job.error
    ? `${job.error.message} (${job.error.code})`
    : (waitingFor(job) ?? job.pause_reason ?? job.stopped_early);
  return why ? `${job.status}: ${why}` : job.status;
}

/** Jobs of older versions have no reason. */
const regionOf = ({ region, placement }: JobDetails) =>
  placement === null || placement === "" ? region : `${region}: ${placement}`;

type Data = { id: string; name: string | null; snapshot_id: string | null; num_rows?: number | null };

/** `carry @snap-1, 63 rows`. A deleted dataset has only its id. */
export const dataOf = ({ id, name, snapshot_id, num_rows }: Data) =>
  `${[name ?? id, snapshot_id].filter(Boolean).join(" ")}${num_rows == null ? "" : `, ${num_rows} rows`}`;

function rewardsOf({ reward_language, reward_functions }: JobDetails): string | null {
  const code = reward_language === null ? [] : [`${reward_language} code of the job`];
  const named = reward_functions.map(({ id, weight }) => (weight === 1 ? id : `${id}:${weight}`));
  return code.length + named.length === 0 ? null : [...code, ...named].join(", ");
}

export function curveOf(series: readonly number[]): string | null {
  const [first, last] = [series[0], series.at(-1)];
  if (first === undefined || last === undefined) return null;
  return `${shortNumber(first)} → ${shortNumber(last)}  ${sparkline(series)}`;
}

export function timeOf({ started_at, completed_at, progress, status }: JobDetails): string | null {
  if (started_at === null) return null;
  const spent = formatDuration(
    (completed_at === null ? Date.now() : Date.parse(completed_at)) - Date.parse(started_at),
  );
  const left = status === "running" && progress.eta_seconds !== null ? progress.eta_seconds : null;
  return left === null ? spent : `${spent}, ${formatDuration(left * 1000)} left`;
}

export const costOf = ({ cost_usd, energy_wh }: JobDetails) =>
  `${formatUsd(cost_usd)}${energy_wh === null ? "" : `, ${shortNumber(energy_wh)} Wh`}`;

/** `name=value`, as `--set` and `--lora` take them. */
export const pairsOf = (values: object): string[] =>
  Object.entries(values).map(([name, value]) => `${name}=${settingText(value)}`);

export const settingText = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

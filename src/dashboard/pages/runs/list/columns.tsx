/** The columns of the list of runs: facts of a run, and any setting or metric. */
import type { ComponentChildren } from "preact";
import { duration, money, NONE, number, words } from "../../../data/format.ts";
import { State } from "../../../kit/pill.tsx";
import type { SortValue } from "../../../kit/rows.ts";
import type { Column } from "../../../kit/table.tsx";
import { Elapsed, Time } from "../../../kit/time.tsx";
import { Curve, progressOf, reasonOf } from "../../home/recent_runs.tsx";
import { Headline } from "../headline.tsx";
import { methodName } from "../methods.ts";
import type { TrainingJob } from "../types.ts";
import { WhenStill } from "../when_seen.tsx";
import { datasetText } from "../words.ts";
import { ownOf, type Sometimes } from "./fields.ts";

type Always =
  | "id"
  | "output_name"
  | "status"
  | "method"
  | "base_model"
  | "dataset"
  | "tags"
  | "group"
  | "notes"
  | "metadata"
  | "error"
  | "progress"
  | "load"
  | "queue_reason"
  | "pause_reason"
  | "stopped_early"
  | "headline_metric"
  | "created_at"
  | "started_at"
  | "completed_at";

/** A run with the fields that the list asks for. */
export type ListedRun = Pick<TrainingJob, Always> &
  Partial<Pick<TrainingJob, Sometimes | "hyperparameters" | "latest_metrics">>;

type RunColumn = Omit<Column<ListedRun>, "key"> & { key: string };

const column = (
  key: string,
  title: string,
  cell: (run: ListedRun) => ComponentChildren,
  sortBy?: (run: ListedRun) => SortValue,
  more: { numeric?: boolean; wide?: boolean } = { wide: true },
): RunColumn => ({ key, title, cell, sortBy, ...more });

const timeOf = (iso: string | null) => (iso === null ? null : Date.parse(iso));
const spentMs = ({ started_at: since, completed_at: until }: ListedRun) =>
  since === null ? null : (timeOf(until) ?? Date.now()) - Date.parse(since);

const NAME = column(
  "name",
  "Name",
  (run) => run.output_name,
  (run) => run.output_name,
  {},
);

const FIXED: readonly RunColumn[] = [
  column(
    "state",
    "State",
    (run) => <State status={run.status} detail={progressOf(run)} reason={reasonOf(run)} />,
    (run) => run.status,
    {},
  ),
  column("curve", "Curve", (run) => (
    <WhenStill height={26}>
      <Curve job={run} />
    </WhenStill>
  )),
  column(
    "result",
    "Result",
    ({ headline_metric: metric }) => <Headline metric={metric} />,
    ({ headline_metric: metric }) => metric?.value ?? null,
    { numeric: true },
  ),
  column(
    "method",
    "Method",
    (run) => methodName(run.method),
    (run) => run.method,
  ),
  column(
    "model",
    "Model",
    (run) => run.base_model,
    (run) => run.base_model,
  ),
  column(
    "dataset",
    "Dataset",
    ({ dataset }) =>
      dataset ? (
        <a class="ref" href={`/datasets/${dataset.id}`}>
          {datasetText(dataset)}
        </a>
      ) : (
        NONE
      ),
    ({ dataset }) => dataset && datasetText(dataset),
  ),
  column(
    "tags",
    "Tags",
    ({ tags }) => <Tags tags={tags} />,
    ({ tags }) => tags.join(", ") || null,
  ),
  column(
    "group",
    "Group",
    ({ group }) => group ?? "",
    ({ group }) => group,
  ),
  column(
    "notes",
    "Notes",
    ({ notes }) => <span class="runs-notes">{notes}</span>,
    ({ notes }) => notes || null,
  ),
  column("took", "Took", (run) => <Took run={run} />, spentMs, { numeric: true, wide: true }),
  column(
    "steps",
    "Steps",
    (run) => number(run.progress.step, 9),
    (run) => run.progress.step,
    {
      numeric: true,
      wide: true,
    },
  ),
  column(
    "created",
    "Created",
    (run) => <Time at={run.created_at} />,
    (run) => timeOf(run.created_at),
  ),
  column(
    "cost_usd",
    "Cost",
    (run) => money(run.cost_usd),
    (run) => run.cost_usd ?? null,
    { numeric: true, wide: true },
  ),
  column(
    "energy_wh",
    "Energy (Wh)",
    (run) => number(run.energy_wh),
    (run) => run.energy_wh ?? null,
    {
      numeric: true,
      wide: true,
    },
  ),
  column(
    "seed",
    "Seed",
    (run) => String(run.seed ?? NONE),
    (run) => run.seed ?? null,
    { numeric: true, wide: true },
  ),
  column(
    "region",
    "Region",
    (run) => run.region ?? NONE,
    (run) => run.region ?? null,
  ),
  column(
    "priority",
    "Priority",
    (run) => run.priority ?? NONE,
    (run) => run.priority ?? null,
  ),
];

export const INITIAL: readonly string[] = ["state", "curve", "result", "method", "model", "tags", "took", "created"];

/** `set:learning_rate` is a setting, `metric:kl` a metric. */
function ownColumn(key: string): RunColumn | undefined {
  const own = ownOf(key);
  if (!own) return undefined;
  const { kind, name } = own;
  const ownValue = (run: ListedRun) => (kind === "set" ? run.hyperparameters?.[name] : run.latest_metrics?.[name]);
  const sortBy = (run: ListedRun): SortValue => {
    const value = ownValue(run);
    return value === undefined || value === null ? null : typeof value === "number" ? value : String(value);
  };
  const shown = (value: unknown) =>
    value === undefined || value === null ? NONE : typeof value === "number" ? number(value, 4) : settingText(value);
  return column(key, name, (run) => shown(ownValue(run)), sortBy, { numeric: true, wide: true });
}

const settingText = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

/** The chosen columns, the name first. Keys of another version are left out. */
export const columnsFor = (keys: readonly string[]): RunColumn[] => [
  NAME,
  ...[...new Set(keys)].flatMap((key) => FIXED.find((each) => each.key === key) ?? ownColumn(key) ?? []),
];

/** Everything that can be a column: of these runs, whose settings and metrics are whole. */
export function choicesOf(runs: readonly Pick<TrainingJob, "hyperparameters" | "latest_metrics">[]) {
  const names = (of: (run: (typeof runs)[number]) => object) =>
    [...new Set(runs.flatMap((run) => Object.keys(of(run))))].sort();
  return [
    ...FIXED.map(({ key, title }) => ({ key, label: title })),
    ...names((run) => run.latest_metrics).map((name) => ({ key: `metric:${name}`, label: `Metric: ${name}` })),
    ...names((run) => run.hyperparameters).map((name) => ({ key: `set:${name}`, label: `Setting: ${name}` })),
  ];
}

/** How rows can be put together. */
export const SECTIONS: Readonly<Record<string, (run: ListedRun) => string>> = {
  group: ({ group }) => group ?? "No group",
  model: ({ base_model: model }) => model,
  method: ({ method }) => methodName(method),
  dataset: ({ dataset }) => dataset?.name ?? "No dataset",
  state: ({ status }) => words(status),
};

export const Tags = ({ tags }: { tags: readonly string[] }) => (
  <span class="runs-tags">
    {tags.map((tag) => (
      <span key={tag} class="runs-tag" title={tag}>
        {tag}
      </span>
    ))}
  </span>
);

const Took = ({ run: { status, started_at: since, completed_at: until, progress } }: { run: ListedRun }) => {
  if (status === "running" && progress.eta_seconds !== null) return <span>{duration(progress.eta_seconds)} left</span>;
  return since ? <Elapsed since={since} until={until} /> : <span class="muted">{NONE}</span>;
};

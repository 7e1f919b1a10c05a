/** The curves of a run, in groups. The run page, the comparison and the exported file follow this table. */
import { bytes } from "../../data/format.ts";
import { bandOf, columnsOf, curveOf, joined, stepsOf, type Values } from "./series.ts";
import type { Point } from "./types.ts";

/** Default: a plain number. */
type Unit = "bytes";

type Line = { key: string; label: string; token: string };
export type PlotSpec = {
  title: string;
  lines: readonly Line[];
  /** Key of the standard deviation around the first line, or keys of the low and the high edge. */
  band?: { spread: string } | { low: string; high: string };
  /** Meaning of the band, for the legend. */
  bandLabel?: string;
  unit?: Unit;
};
/** `missing`: shown if a run has none of the metrics. Without it the panel is left out then. */
export type PanelSpec = { title: string; plots: readonly PlotSpec[]; missing?: string };

const line = (key: string, label: string, token = "--c1"): Line => ({ key, label, token });
const one = (title: string, key: string, token = "--c1"): PlotSpec => ({ title, lines: [line(key, title, token)] });

/** The large curve, by method. The first one with data is shown. */
export const MAIN: readonly PlotSpec[] = [
  {
    title: "Reward",
    bandLabel: "± one standard deviation",
    band: { spread: "reward_std" },
    lines: [line("reward", "mean"), line("eval_reward", "held out", "--c3")],
  },
  {
    title: "Reward margin",
    lines: [
      line("rewards/margins", "margin"),
      line("rewards/chosen", "chosen", "--c3"),
      line("rewards/rejected", "rejected", "--c4"),
    ],
  },
  { title: "Loss", lines: [line("loss", "training"), line("eval_loss", "held out", "--c3")] },
];

const PANELS: readonly PanelSpec[] = [
  {
    title: "Learning",
    plots: [
      one("Loss", "loss"),
      one("KL to base", "kl", "--c2"),
      one("Learning rate", "learning_rate", "--c5"),
      one("Groups of equal reward", "frac_reward_zero_std", "--c6"),
      one("Token accuracy", "mean_token_accuracy", "--c3"),
      one("Pairs ranked right", "rewards/accuracies", "--c3"),
    ],
  },
  {
    title: "Stability",
    plots: [
      one("Gradient norm", "grad_norm"),
      {
        title: "Clipped tokens",
        lines: [
          line("clip_ratio/region_mean", "all"),
          line("clip_ratio/high_mean", "high", "--c2"),
          line("clip_ratio/low_mean", "low", "--c3"),
        ],
      },
      one("Entropy", "entropy", "--c3"),
      {
        title: "Ratio to sampler",
        bandLabel: "lowest to highest",
        lines: [line("sampling/importance_sampling_ratio/mean", "mean", "--c4")],
        band: { low: "sampling/importance_sampling_ratio/min", high: "sampling/importance_sampling_ratio/max" },
      },
    ],
  },
  {
    title: "Completions",
    plots: [
      {
        title: "Length in tokens",
        bandLabel: "shortest to longest",
        lines: [line("completions/mean_length", "mean")],
        band: { low: "completions/min_length", high: "completions/max_length" },
      },
      one("Share cut off", "completions/clipped_ratio", "--c2"),
      one("Without a reward", "errored_rollouts", "--c4"),
    ],
  },
  {
    title: "Speed",
    plots: [
      {
        title: "Tokens a second",
        lines: [line("tokens_per_second", "training"), line("rollout_tokens_per_second", "sampling", "--c3")],
      },
      one("Seconds a step", "step_time", "--c5"),
      {
        title: "Parts of a step (s)",
        lines: [
          line("rollout_time", "writing", "--c3"),
          line("reward_time", "scoring", "--c2"),
          line("update_time", "update", "--c1"),
          line("other_time", "other", "--c5"),
        ],
      },
      one("Reward latency p95 (s)", "reward_latency_p95", "--c2"),
      { ...one("Peak GPU memory", "gpu_memory_peak_bytes", "--c6"), unit: "bytes" },
    ],
  },
  {
    title: "Energy",
    plots: [one("Joules a step", "step_energy_joules"), one("Power (W)", "power_watts", "--c2")],
    missing: "The steps of this run have no measured energy. It needs a GPU that reports its power to nvidia-smi.",
  },
];

export type PlotSeries = {
  label: string;
  values: Values;
  token: string;
  band?: { low: Values; high: Values } | undefined;
};
export type Plot = {
  title: string;
  x: readonly number[];
  series: PlotSeries[];
  bandLabel?: string | undefined;
  unit?: Unit | undefined;
};
export type Panel = { title: string; plots: Plot[]; missing: string | undefined };

/** Undefined if the run has none of the metrics. */
export function plotOf({ title, lines, band, bandLabel, unit }: PlotSpec, points: readonly Point[]): Plot | undefined {
  const steps = stepsOf(points);
  const shown = lines.filter(({ key }) => columnsOf(points).has(key));
  if (shown.length === 0) return undefined;
  const edges = band ? ("spread" in band ? [band.spread] : [band.low, band.high]) : [];
  const keys = [...shown.map(({ key }) => key), ...edges];
  const { x, columns } = joined(keys.map((key) => curveOf(points, key, steps) ?? { x: [], values: [] }));
  const series = shown.map(({ label, token }, i): PlotSeries => ({ label, values: columns[i] ?? [], token }));
  const [first] = series;
  const [low = [], high = []] = columns.slice(shown.length);
  if (band && first) first.band = "spread" in band ? bandOf(first.values, low) : { low, high };
  return { title, x, series, ...(band ? { bandLabel } : {}), ...(unit ? { unit } : {}) };
}

const mainSpec = (points: readonly Point[]): PlotSpec | undefined =>
  MAIN.find(({ lines }) => lines.some(({ key }) => columnsOf(points).has(key)));

export function mainPlot(points: readonly Point[]): Plot | undefined {
  const spec = mainSpec(points);
  return spec && plotOf(spec, points);
}

type PanelPlan = { title: string; plots: readonly PlotSpec[]; missing?: string | undefined };

/** Panels and plots that have data, without the curve that is shown large. Curves are made when they are drawn. */
export function panelsFor(points: readonly Point[]): PanelPlan[] {
  const main = mainSpec(points);
  const columns = columnsOf(points);
  const parts = partsSpec(points);
  if (points.length === 0) return [];
  const groups = PANELS.map(({ title, plots, missing }) => ({
    title,
    missing,
    plots: plots.filter((spec) => spec.title !== main?.title && spec.lines.some(({ key }) => columns.has(key))),
  })).filter(({ plots, missing }) => plots.length > 0 || missing !== undefined);
  return [...(parts ? [{ title: parts.title, plots: [parts] }] : []), ...groups];
}

export const panelsOf = (points: readonly Point[]): Panel[] =>
  panelsFor(points).map(({ title, plots, missing }) => ({
    title,
    missing,
    plots: plots.flatMap((spec) => plotOf(spec, points) ?? []),
  }));

/** One curve for each reward function, if there are several. */
function partsSpec(points: readonly Point[]): PlotSpec | undefined {
  const names = new Set([...columnsOf(points).keys()].flatMap((key) => /^rewards\/(.+)\/mean$/.exec(key)?.[1] ?? []));
  if (names.size < 2) return undefined;
  const lines = [...names].map((name, i) => line(`rewards/${name}/mean`, name, `--c${(i % 6) + 1}`));
  return { title: "Parts of the reward", lines };
}

/** The value of a plot that never changes; undefined if one does. Such a plot needs no curve. */
export function constantOf({ series }: Plot): number | undefined {
  const values = new Set(series.flatMap((each) => each.values).filter((value) => value !== null));
  const [only] = values;
  return values.size === 1 ? only : undefined;
}

/** How figures of a unit are written. */
export const formatOf = (unit: Unit | undefined): ((value: number) => string) | undefined =>
  unit === "bytes" ? bytes : undefined;

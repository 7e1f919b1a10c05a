/** The shape of a chart's content. */
export type Values = readonly (number | null)[];

export type Series = {
  label: string;
  /** One for each x; null leaves a gap. */
  values: Values;
  /** A colour token: `--c1` … `--c6`. */
  token?: string | undefined;
  /** Low and high values: a band around a line, an upright stroke through a point. */
  band?: { low: Values; high: Values } | undefined;
  dashed?: boolean | undefined;
  /** Points without a line, for things that happen one by one. */
  dots?: boolean | undefined;
};
/** A vertical line with a word: an alarm, a checkpoint. Without a word only the line. */
export type Mark = { x: number; label: string; token?: string | undefined };

/** A horizontal line with a word: a threshold. */
export type Level = { y: number; label: string };

/**
 * The kind of x: a number, such as a step; a time of day, a length of time, or the begin of a day of UTC in seconds; or a
 * name, whose x is its index in `names`.
 */
export type AxisKind = "number" | "time" | "span" | "day" | "name";

/** Everything that a picture of the chart needs. */
export type Content = {
  /** For screen readers, and the name of saved files. */
  label: string;
  x: readonly number[];
  series: readonly Series[];
  marks?: readonly Mark[] | undefined;
  levels?: readonly Level[] | undefined;
  /** Names of the places of an axis of the kind "name". */
  names?: readonly string[] | undefined;
  /** The ends of the y axis. Default: those of the values. */
  yRange?: readonly [low: number, high: number] | undefined;
  /** Name of the x axis: "step". */
  xLabel?: string | undefined;
  /** Name of the y axis with its unit: "watts". */
  yLabel?: string | undefined;
  kind?: AxisKind | undefined;
  /** Bars that stand on each other instead of lines. Values are not below 0, and x has equal steps. */
  bars?: boolean | undefined;
  /** The y axis begins at 0. It does so for bars. */
  fromZero?: boolean | undefined;
  /** Figures of the y axis. Default: three significant digits. */
  format?: ((value: number) => string) | undefined;
};

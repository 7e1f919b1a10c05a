/** Curves with axes. uPlot is loaded with the first chart, so that pages without one stay small. */
import { useLayoutEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
import { colour, theme } from "../../shell/theme.ts";
import { optionsOf } from "./options.ts";

export type Series = {
  label: string;
  /** One for each x; null leaves a gap. */
  values: readonly (number | null)[];
  /** A colour token: `--c1` … `--c5`. */
  token?: string | undefined;
  /** Low and high values of a band around the line. */
  band?: { low: readonly (number | null)[]; high: readonly (number | null)[] } | undefined;
  dashed?: boolean | undefined;
};
/** A vertical line with a word: an alarm, a checkpoint. */
export type Mark = { x: number; label: string; token?: string | undefined };

export type ChartProps = {
  /** For screen readers and the legend. */
  label: string;
  x: readonly number[];
  series: readonly Series[];
  marks?: readonly Mark[] | undefined;
  height?: number | undefined;
  log?: boolean | undefined;
  /** The last x of a run that still grows: the axis does not move. */
  xMax?: number | undefined;
  /** Shown at the x axis: "step". */
  xLabel?: string | undefined;
  /** x is a time of day in seconds. */
  time?: boolean | undefined;
  /** x is a length of time in seconds. */
  span?: boolean | undefined;
  /** Index of the point that the reader clicks. */
  onPick?: ((index: number) => void) | undefined;
  /** Charts with the same name move their cursor together. */
  sync?: string | undefined;
};

let loaded: typeof uPlot | undefined;
let loading: Promise<typeof uPlot> | undefined;

/** Loads uPlot once. A page that will show curves calls it before its data is there; its charts then draw at once. */
export const loadPlot = (): Promise<typeof uPlot> =>
  (loading ??= import("uplot").then(({ default: library }) => (loaded = library)));

export function Chart(props: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef(props);
  latest.current = props;
  const { label, series, height = 200 } = props;
  const shape = JSON.stringify([
    series.map(({ label, token, dashed, band }) => [label, token, dashed, !!band]),
    height,
    props.log,
    theme.value,
  ]);

  // Before the frame is painted, not after it: a chart must not cost two frames.
  useLayoutEffect(() => {
    let isUnmounted = false;
    const element = host.current;
    const watch = new ResizeObserver(() => {
      const width = element?.clientWidth ?? 0;
      if (plot.current && width !== plot.current.width) plot.current.setSize({ width, height });
    });
    const draw = (UPlot: typeof uPlot) => {
      if (isUnmounted || !element) return;
      plot.current = new UPlot(
        optionsOf(latest, element.clientWidth, height, colours()),
        dataOf(latest.current),
        element,
      );
      watch.observe(element);
    };
    if (loaded) draw(loaded);
    else void loadPlot().then(draw);
    return () => {
      isUnmounted = true;
      watch.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [shape]);
  const drawn = useRef<unknown>(undefined);
  useLayoutEffect(() => {
    if (drawn.current !== undefined) plot.current?.setData(dataOf(props)); // a new plot has its data
    drawn.current = props.x;
  }, [props.x, series, props.marks]);

  return (
    <figure class="chart">
      <figcaption class={series.length > 1 ? "legend" : "hidden"}>
        {series.length === 1 && label}
        {series.length > 1 &&
          series.map(({ label: name, token = "--c1" }) => (
            <span key={name}>
              <i style={{ background: `var(${token})` }} />
              {name}
            </span>
          ))}
      </figcaption>
      <div ref={host} role="img" aria-label={label} style={{ height: `${height}px` }} />
    </figure>
  );
}

/** The columns of uPlot: x, then each line, followed by its band. uPlot reads them and changes none. */
function dataOf({ x, series }: ChartProps): uPlot.AlignedData {
  const columns = series.flatMap(({ values, band }) => (band ? [values, band.high, band.low] : [values]));
  return [x, ...columns] as uPlot.AlignedData;
}

const colourValues = new Map<string, string>();

/** Looks up colours of the theme now: `colours()("--c1")`. */
function colours(): (token: string) => string {
  const name = `${theme.value} ${matchMedia("(prefers-color-scheme: dark)").matches}`;
  return (token) => {
    const key = `${name} ${token}`;
    const value = colourValues.get(key) ?? colour(token);
    colourValues.set(key, value);
    return value;
  };
}

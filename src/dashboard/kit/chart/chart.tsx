/**
 * The one component of every curve with axes. Drag to zoom, hover or arrow keys for the crosshair, click or Enter to pick a
 * point. uPlot is loaded with the first chart, so that pages without one stay small.
 */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { colour, theme } from "../../shell/theme.ts";
import { dataOf, optionsOf, type View } from "./options.ts";
import { csvOf, fileName, pictureOf, saveText } from "./save.ts";
import type { Content } from "./series.ts";
import { noteLines } from "./words.ts";

export type ChartAction = { label: string; onClick: () => void };

export type ChartProps = Content & {
  height?: number | undefined;
  /** A logarithmic y axis. Values of 0 and below are left out; if all are, the axis is linear. */
  log?: boolean | undefined;
  /** 0 to 1: how much each line is smoothed. The raw line stays, faded. */
  smoothing?: number | undefined;
  /** The last x of a run that still grows: the axis does not move. */
  xMax?: number | undefined;
  /** Index of the point that the reader picks. */
  onPick?: ((index: number) => void) | undefined;
  /** More lines of the chart's menu. */
  actions?: readonly ChartAction[] | undefined;
  /** Charts with the same name move their crosshair and their zoom together. */
  sync?: string | undefined;
};

let loaded: typeof uPlot | undefined;
let loading: Promise<typeof uPlot> | undefined;

/** Loads uPlot once. A page that will show curves calls it before its data is there; its charts then draw at once. */
export const loadPlot = (): Promise<typeof uPlot> =>
  (loading ??= import("uplot").then(({ default: library }) => (loaded = library)));

const NOTHING: ReadonlySet<string> = new Set();

export function Chart(props: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const [hidden, setHidden] = useState(NOTHING);
  const [isZoomed, setZoomed] = useState(false);
  const [spoken, setSpoken] = useState("");
  const view: View = { ...props, hidden };
  const latest = useRef(view);
  latest.current = view;
  const { label, series, height = 200, kind, xLabel, yLabel } = props;
  const shape = JSON.stringify([
    series.map(({ label, token, dashed, dots, band }) => [label, token, dashed, dots, !!band]),
    ...[
      height,
      props.log,
      (props.smoothing ?? 0) > 0,
      kind,
      xLabel,
      yLabel,
      props.bars,
      props.fromZero,
      props.yRange,
      props.names,
      props.sync,
      [...hidden],
    ],
    theme.value,
  ]);

  // Before the frame is painted, not after it: a chart must not cost two frames.
  useLayoutEffect(() => {
    let isUnmounted = false;
    const element = host.current;
    const watch = new ResizeObserver(() => {
      const width = element?.clientWidth ?? 0;
      if (!plot.current || width === plot.current.width) return;
      plot.current.setSize({ width, height });
      pointAt(plot.current, undefined, undefined); // the note stands where the old width had it
    });
    const draw = (UPlot: typeof uPlot) => {
      if (isUnmounted || !element) return;
      const note = noteIn(latest);
      const barPaths = UPlot.paths.bars?.({ size: [0.72, 44] });
      const hooks = { onCursor: note.follow, onScale: (of: uPlot) => setZoomed(isPart(of)), barPaths };
      const size = { width: element.clientWidth, height };
      plot.current = new UPlot(optionsOf(latest, size, colours(), hooks), dataOf(latest.current), element);
      plot.current.over.append(note.element);
      picking(plot.current, latest);
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
    if (drawn.current !== undefined && plot.current) update(plot.current, latest.current); // a new plot has its data
    drawn.current = props.x;
  }, [props.x, series, props.marks, props.smoothing]);

  const keys = (event: KeyboardEvent) => {
    const { current: drawing } = plot;
    const index = drawing && moved(drawing, event);
    if (index === undefined || !drawing) return;
    event.preventDefault();
    if (event.key === "Enter") return latest.current.onPick?.(index);
    pointAt(drawing, props.sync, latest.current.x[index]);
    setSpoken(noteLines(latest.current, index, hidden).join(", "));
  };
  const toggle = (name: string) => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    setHidden(next);
  };
  return (
    <figure class="chart">
      <figcaption class={series.length > 1 ? "legend" : "hidden"}>
        {series.length === 1
          ? label
          : series.map(({ label: name, token = "--c1" }) => (
              <button key={name} type="button" aria-pressed={!hidden.has(name)} onClick={() => toggle(name)}>
                <i style={{ background: `var(${token})` }} />
                {name}
              </button>
            ))}
      </figcaption>
      <div
        class="plot"
        role="application"
        aria-roledescription="chart"
        aria-label={`${label}. Arrow keys move along the curve`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: an application takes keys
        tabIndex={0}
        onKeyDown={keys}
        onBlur={() => plot.current && pointAt(plot.current, props.sync, undefined)}
      >
        <div ref={host} role="img" aria-label={label} style={{ height: `${height}px` }} />
      </div>
      {isZoomed && (
        <button type="button" class="btn chart-reset" onClick={() => plot.current && whole(plot.current, props.sync)}>
          Reset zoom
        </button>
      )}
      <Menu
        content={props}
        height={height}
        width={() => host.current?.clientWidth ?? 600}
        actions={props.actions ?? []}
      />
      <span class="hidden" role="status">
        {spoken}
      </span>
    </figure>
  );
}

type MenuProps = { content: Content; height: number; width: () => number; actions: readonly ChartAction[] };

function Menu({ content, height, width, actions }: MenuProps) {
  const menu = useRef<HTMLDetailsElement>(null);
  const save = (ending: string, type: string, make: () => string) => {
    saveText(`${fileName(content.label)}.${ending}`, type, make());
    menu.current?.removeAttribute("open");
  };
  const size = () => ({ width: Math.max(600, width()), height: Math.max(300, height) });
  return (
    <details class="chart-menu" ref={menu}>
      <summary aria-label={`Menu of ${content.label}`} title="Save or arrange this chart">
        ⋯
      </summary>
      <div>
        <button type="button" onClick={() => save("svg", "image/svg+xml", () => pictureOf(content, size(), colours()))}>
          Picture (SVG)
        </button>
        <button type="button" onClick={() => save("csv", "text/csv", () => csvOf(content))}>
          Figures (CSV)
        </button>
        {actions.map(({ label, onClick }) => (
          <button key={label} type="button" onClick={onClick}>
            {label}
          </button>
        ))}
        <small>Drag over a part to zoom in</small>
      </div>
    </details>
  );
}

/** The note beside the crosshair. It follows the mouse, the keys, and the other charts of its group. */
function noteIn(latest: { readonly current: View }) {
  const element = document.createElement("div");
  element.className = "tip";
  element.hidden = true;
  const follow = (plot: uPlot) => {
    const { idx, left = -1 } = plot.cursor;
    element.hidden = idx === null || idx === undefined || left < 0;
    if (element.hidden || idx === null || idx === undefined) return;
    element.textContent = noteLines(latest.current, idx, latest.current.hidden).join("\n");
    const isRight = left > plot.bbox.width / devicePixelRatio / 2;
    element.style.transform = `translateX(calc(${left}px ${isRight ? "- 100% - 12px" : "+ 12px"}))`;
  };
  return { element, follow };
}

const DRAG_PX = 4;

/** A click picks a point. The end of a drag, which zooms, does not. */
function picking(plot: uPlot, latest: { readonly current: View }) {
  let from = 0;
  plot.over.addEventListener("mousedown", ({ clientX }) => {
    from = clientX;
  });
  plot.over.addEventListener("click", ({ clientX }) => {
    const { idx } = plot.cursor;
    if (Math.abs(clientX - from) < DRAG_PX && idx !== null && idx !== undefined) latest.current.onPick?.(idx);
  });
}

const endsOf = ({ data: [x] }: uPlot): [number, number] => [x[0] ?? 0, x.at(-1) ?? 0];

/** True if some points are left or right of what is shown. */
function isPart(plot: uPlot): boolean {
  const [first, last] = endsOf(plot);
  const { min = first, max = last } = plot.scales["x"] ?? {};
  return (min ?? first) > first || (max ?? last) < last;
}

const groupOf = (plot: uPlot, sync: string | undefined): readonly uPlot[] =>
  sync === undefined ? [plot] : (loaded?.sync(sync).plots ?? [plot]);

/** Moves the crosshair of the chart and of its group. Undefined takes it away. */
function pointAt(plot: uPlot, sync: string | undefined, x: number | undefined) {
  for (const each of groupOf(plot, sync)) {
    if (x === undefined) each.setCursor({ left: -10, top: -10 });
    else each.setCursor({ left: each.valToPos(x, "x"), top: each.over.clientHeight / 2 });
  }
}

/** Shows all points of the chart and of its group. */
function whole(plot: uPlot, sync: string | undefined) {
  for (const each of groupOf(plot, sync)) {
    const [min, max] = endsOf(each);
    each.setScale("x", { min, max });
  }
}

/** New data of the same lines. A part that the reader has chosen stays. */
function update(plot: uPlot, view: View) {
  const { min, max } = plot.scales["x"] ?? {};
  if (!isPart(plot) || min == null || max == null) return plot.setData(dataOf(view));
  plot.batch(() => {
    plot.setData(dataOf(view), false);
    plot.setScale("x", { min, max });
  });
}

const STRIDE = 10;

/** The index of the point where a key leads, among those that are shown. Undefined: the key means nothing here. */
function moved(plot: uPlot, { key, shiftKey }: KeyboardEvent): number | undefined {
  const [x] = plot.data;
  if (x.length === 0) return undefined;
  const { min, max } = plot.scales["x"] ?? {};
  const from = Math.max(0, firstAtLeast(x, min ?? Number.NEGATIVE_INFINITY));
  const to = Math.min(x.length - 1, firstAtLeast(x, max ?? Number.POSITIVE_INFINITY));
  const at = plot.cursor.idx ?? undefined;
  const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (key === "Home") return from;
  if (key === "End") return to;
  if (key === "Enter") return at;
  if (by === undefined) return undefined;
  if (at === undefined) return by > 0 ? from : to;
  return Math.min(to, Math.max(from, at + by * (shiftKey ? STRIDE : 1)));
}

/** The first index whose value is not below `least`; the length if there is none. */
function firstAtLeast(x: ArrayLike<number>, least: number): number {
  let [low, high] = [0, x.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((x[middle] ?? 0) < least) low = middle + 1;
    else high = middle;
  }
  return low;
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

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { barOf, type Scroll, scrolledTo, shownRows, topOf, totalOf } from "./scroll.ts";

const SETTLE_MS = 140;
const ROW_HEIGHT = 36;

type RowListProps = {
  label: string;
  rows: number;
  height: number;
  /** `index` counts from 0. */
  row: (index: number) => ComponentChildren;
  onRange?: ((first: number, count: number) => void) | undefined;
  /** Scrolled into view when it changes. */
  focus?: number | undefined;
  /** Above the rows, while they scroll below it. It is as high as a row. */
  head?: ComponentChildren;
  /** Pixels that a row needs; a narrower list scrolls sideways. */
  minWidth?: number | undefined;
};

/** A list of millions of rows with one height. Only the rows in view are drawn. */
export function RowList({ label, rows, height, row, onRange, focus, head, minWidth }: RowListProps) {
  const ref = useRef<HTMLElement>(null);
  const settle = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const size = { rows, rowHeight: ROW_HEIGHT, height };
  const [scroll, setScroll] = useState<Scroll>({ top: 0, at: 0 });
  const { first, count, offset } = shownRows(scroll, size);

  const moveTo = (top: number) => {
    const at = barOf(top, size);
    setScroll({ top, at });
    if (ref.current) ref.current.scrollTop = at;
  };
  useLayoutEffect(() => {
    if (focus === undefined) return;
    const isVisible = focus * ROW_HEIGHT >= scroll.top && (focus + 1) * ROW_HEIGHT <= scroll.top + height;
    if (!isVisible) moveTo(topOf(Math.max(0, focus - 3), size));
  }, [focus, rows]);
  useEffect(() => onRange?.(first, count), [first, count, onRange]);
  useEffect(() => () => clearTimeout(settle.current), []);

  const onScroll = (at: number) => {
    if (Math.abs(at - scroll.at) < 1) return;
    const moved = scrolledTo(at, scroll, size);
    setScroll(moved);
    clearTimeout(settle.current);
    settle.current = setTimeout(() => {
      if (Math.abs(barOf(moved.top, size) - moved.at) >= 1) moveTo(moved.top);
    }, SETTLE_MS);
  };
  return (
    <section
      ref={ref}
      class="virtual datasets-list"
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
      style={{ height: `${height}px` }}
      onScroll={(event) => onScroll(event.currentTarget.scrollTop)}
    >
      {head !== undefined && (
        <div class="datasets-head" style={{ minWidth: `${minWidth ?? 0}px` }}>
          {head}
        </div>
      )}
      <div style={{ height: `${totalOf(size)}px`, minWidth: `${minWidth ?? 0}px` }}>
        <div style={{ transform: `translateY(${offset}px)` }}>
          {Array.from({ length: count }, (_, i) => (
            <div key={first + i} class="datasets-slot">
              {row(first + i)}
            </div>
          ))}
        </div>
      </div>
    </section>
  );
}

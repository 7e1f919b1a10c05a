import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { visibleRows } from "../data/window.ts";

type VirtualListProps = {
  label: string;
  /** All rows, also those that are not loaded. */
  rows: number;
  rowHeight: number;
  height: number;
  row: (index: number) => ComponentChildren;
  /** Called when the visible rows change, to load them. */
  onRange?: ((first: number, count: number) => void) | undefined;
};

/** Draws only the rows on the screen, of millions. Every row has the same height. */
export function VirtualList({ label, rows, rowHeight, height, row, onRange }: VirtualListProps) {
  const ref = useRef<HTMLDivElement>(null);
  const [scrollTop, setScrollTop] = useState(0);
  const shown = visibleRows(rows, rowHeight, { scrollTop, height });
  useEffect(() => onRange?.(shown.first, shown.count), [shown.first, shown.count, onRange]);
  return (
    <section
      ref={ref}
      class="virtual"
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
      style={{ height: `${height}px` }}
      onScroll={(event) => setScrollTop(event.currentTarget.scrollTop)}
    >
      <div style={{ height: `${shown.total}px` }}>
        <div style={{ transform: `translateY(${shown.offset}px)` }}>
          {Array.from({ length: shown.count }, (_, i) => (
            <div key={shown.first + i} style={{ height: `${rowHeight}px` }}>
              {row(shown.first + i)}
            </div>
          ))}
        </div>
      </div>
    </section>
  );
}

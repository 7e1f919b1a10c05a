/** Tables of any length: parts that are far from the screen are not drawn. Arrow keys move between rows. */
import { type ComponentChildren, Fragment, type RefObject, type VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  CHUNK,
  chunksOf,
  MOST_WHOLE,
  type Near,
  nearParts,
  type Part as PartOf,
  type Sort,
  type SortValue,
} from "./rows.ts";

export type Column<T> = {
  title: string;
  cell: (row: T) => ComponentChildren;
  /** A name that stays, for sorting and choosing. Default: the title. */
  key?: string | undefined;
  /** Figures are right-aligned and tabular. */
  numeric?: boolean | undefined;
  /** Not shown on narrow screens. */
  wide?: boolean | undefined;
  /** A column without it cannot be sorted. */
  sortBy?: ((row: T) => SortValue) | undefined;
};

type TableProps<T> = {
  /** For screen readers. */
  label: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  keyOf: (row: T) => string;
  /** The first column links there. */
  href?: ((row: T) => string) | undefined;
  sort?: Sort | undefined;
  onSort?: ((sort: Sort) => void) | undefined;
  /** Rows of one section follow each other, below its name. */
  sectionOf?: ((row: T) => string) | undefined;
};

const ROW_PX = 38; // until the first part is drawn
/** Rows are drawn this far above and below the window. */
const NEAR_PX = 300;
/** They fill a screen. The rest of a short table is drawn after the first paint, so that a search shows its answer at once. */
const FIRST_ROWS = 16;

export const keyOfColumn = <T,>({ key, title }: Column<T>): string => key ?? title;

export function Table<T>(props: TableProps<T>) {
  const { label, columns, keyOf, sort, onSort } = props;
  const rows = useFirst(props.rows);
  const parts = useMemo(() => chunksOf(rows, keyOf), [rows]);
  const table = useRef<HTMLTableElement>(null);
  const { first, last, above, below } = useNear(table, parts);
  const isLong = parts.length > 1;
  const made = useMemo(() => new Map<string, VNode>(), [props, rows]); // scrolling draws only what is new
  const drawn = (part: PartOf<T>, i: number) => {
    const before = (first + i) * CHUNK - 1;
    const kept = made.get(part.key) ?? <Part key={part.key} {...props} rows={part.rows} before={before} all={rows} />;
    made.set(part.key, kept);
    return kept;
  };
  const shape = columns.map(keyOfColumn).join("\n");
  // Who has a keyboard alone scrolls a wide table by its links. One without any has to take the focus itself.
  const ownFocus = props.href || onSort ? {} : { role: "group" as const, "aria-label": label, tabIndex: 0 };
  return (
    <div class="scroll" {...ownFocus}>
      <table ref={table} class="rows" key={shape} aria-rowcount={isLong ? rows.length + 1 : undefined}>
        <caption class="hidden">{label}</caption>
        <Head columns={columns} sort={sort} onSort={onSort} isLong={isLong} />
        {isLong && <Space key="above" px={above} columns={columns.length} />}
        {parts.slice(first, last + 1).map(drawn)}
        {isLong && <Space key="below" px={below} columns={columns.length} />}
      </table>
    </div>
  );
}

/** In a new table the first rows, then all. */
function useFirst<T>(rows: readonly T[]): readonly T[] {
  const [isFirst, setFirst] = useState(rows.length > FIRST_ROWS && rows.length <= MOST_WHOLE);
  useEffect(() => setFirst(false), []); // after the paint
  return useMemo(() => (isFirst ? rows.slice(0, FIRST_ROWS) : rows), [rows, isFirst]);
}

/** In place of rows that are not drawn. */
const Space = ({ px, columns }: { px: number; columns: number }) => (
  <tbody class="far" aria-hidden="true">
    <tr style={{ height: `${px}px` }}>
      <td colSpan={columns} />
    </tr>
  </tbody>
);

/** The parts near the window. It follows scrolling, the size of the window, and what comes above the table. */
function useNear<T>(table: RefObject<HTMLTableElement | null>, parts: readonly PartOf<T>[]): Near {
  const heights = useRef(new Map<string, number>()).current; // of parts that were drawn
  const near = (from: number, to: number) => {
    const drawn = parts.filter(({ key }) => heights.has(key));
    const rows = drawn.reduce((sum, part) => sum + part.rows.length, 0);
    const px = rows === 0 ? ROW_PX : drawn.reduce((sum, { key }) => sum + (heights.get(key) ?? 0), 0) / rows;
    return nearParts(
      parts.map((part) => heights.get(part.key) ?? part.rows.length * px),
      from - NEAR_PX,
      to + NEAR_PX,
    );
  };
  const [shown, setShown] = useState<Near>(() => near(0, innerHeight));
  const follow = useRef(() => {});
  follow.current = () => {
    const bodies = [...(table.current?.tBodies ?? [])].slice(1, -1);
    for (const [i, body] of bodies.entries()) {
      const part = parts[shown.first + i];
      if (part) heights.set(part.key, body.offsetHeight);
    }
    const top = table.current?.tBodies[0]?.getBoundingClientRect().top ?? 0;
    const next = near(-top, innerHeight - top);
    if (!isSame(next, shown)) setShown(next);
  };
  const isLong = parts.length > 1;
  useLayoutEffect(() => {
    if (!isLong) return;
    const move = () => follow.current();
    const sizes = new ResizeObserver(move);
    sizes.observe(document.documentElement);
    addEventListener("scroll", move, { passive: true, capture: true });
    return () => {
      sizes.disconnect();
      removeEventListener("scroll", move, { capture: true });
    };
  }, [isLong]);
  useLayoutEffect(() => {
    if (isLong) follow.current();
  }, [parts]);
  if (!isLong) return WHOLE;
  const last = Math.min(shown.last, parts.length - 1);
  return last === shown.last ? shown : near(0, innerHeight);
}

const isSame = (a: Near, b: Near) =>
  a.first === b.first && a.last === b.last && Math.abs(a.above - b.above) < 1 && Math.abs(a.below - b.below) < 1;

const WHOLE: Near = { first: 0, last: 0, above: 0, below: 0 };

const classOf = <T,>({ numeric, wide }: Column<T>) => `${numeric ? "n" : ""} ${wide ? "wide" : ""}`;

type HeadProps<T> = Pick<TableProps<T>, "columns" | "sort" | "onSort"> & { isLong: boolean };

/** The columns of a long table keep the widths of its first rows: nothing moves while others come and go. */
function Head<T>({ columns, sort, onSort, isLong }: HeadProps<T>) {
  const row = useRef<HTMLTableRowElement>(null);
  const [widths, setWidths] = useState<readonly string[]>([]);
  useLayoutEffect(() => {
    const table = row.current?.closest("table");
    if (!isLong || !table) return;
    const cells = [...(row.current?.cells ?? [])].map(({ offsetWidth }) => offsetWidth);
    const all = cells.reduce((sum, width) => sum + width, 0);
    table.style.tableLayout = "fixed";
    if (all > 0) setWidths(cells.map((width) => `${((100 * width) / all).toFixed(2)}%`));
    return () => {
      table.style.tableLayout = "";
      setWidths([]);
    };
  }, [isLong]);
  return (
    <thead>
      <tr ref={row}>
        {columns.map((column, i) => {
          const key = keyOfColumn(column);
          const isSorted = sort?.key === key;
          const width = widths[i];
          return (
            <th
              key={key}
              scope="col"
              class={classOf(column)}
              style={width === undefined ? undefined : { width }}
              aria-sort={isSorted ? (sort.down ? "descending" : "ascending") : undefined}
            >
              {column.sortBy && onSort ? (
                <button
                  type="button"
                  class="plain"
                  onClick={() => onSort({ key, down: isSorted ? !sort.down : column.numeric === true })}
                >
                  {column.title}
                  <span aria-hidden="true">{isSorted ? (sort.down ? " ↓" : " ↑") : ""}</span>
                </button>
              ) : (
                column.title
              )}
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

type PartProps<T> = Pick<TableProps<T>, "rows" | "columns" | "keyOf" | "href" | "sectionOf"> & {
  /** Index of the row before this part, among all. */
  before: number;
  all: readonly T[];
};

function Part<T>({ rows, columns, keyOf, href, sectionOf, before, all }: PartProps<T>) {
  const sectionAt = (i: number) => {
    const row = all[before + 1 + i];
    return row === undefined ? undefined : sectionOf?.(row);
  };
  return (
    <tbody>
      {rows.map((row, i) => {
        const section = sectionAt(i);
        return (
          <Fragment key={keyOf(row)}>
            {section !== undefined && section !== sectionAt(i - 1) && (
              <tr class="section">
                <th colSpan={columns.length} scope="rowgroup">
                  {section}
                </th>
              </tr>
            )}
            <tr>
              {columns.map((column, at) => (
                <td key={keyOfColumn(column)} class={classOf(column)} data-title={column.title}>
                  {at === 0 && href ? (
                    <a class="rowlink" href={href(row)} onKeyDown={moveFocus}>
                      {column.cell(row)}
                    </a>
                  ) : (
                    column.cell(row)
                  )}
                </td>
              ))}
            </tr>
          </Fragment>
        );
      })}
    </tbody>
  );
}

/** Arrow keys on the link of a row move to the row above or below. */
function moveFocus(event: KeyboardEvent) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const at = event.target;
  if (by === undefined || !(at instanceof HTMLElement) || !at.matches(".rowlink")) return;
  const links = [...(at.closest("table")?.querySelectorAll<HTMLElement>(".rowlink") ?? [])];
  const next = links[links.indexOf(at) + by];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

/** Below a list with a cursor. */
export const More = ({ list }: { list: { hasMore: boolean; more: () => Promise<void> } }) =>
  list.hasMore ? (
    <button type="button" class="btn more" onClick={() => void list.more()}>
      Show more
    </button>
  ) : null;

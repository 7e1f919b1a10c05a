/** Tables of any length: parts that are far from the screen are not drawn. Arrow keys move between rows. */
import { type ComponentChildren, Fragment } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { CHUNK, chunksOf, type Sort, type SortValue } from "./rows.ts";

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

export const keyOfColumn = <T,>({ key, title }: Column<T>): string => key ?? title;

export function Table<T>(props: TableProps<T>) {
  const { label, rows, columns, keyOf, sort, onSort } = props;
  const parts = chunksOf(rows, keyOf);
  const shape = columns.map(keyOfColumn).join("\n");
  const [rowPx, setRowPx] = useState(ROW_PX);
  // Who has a keyboard alone scrolls a wide table by its links. One without any has to take the focus itself.
  const ownFocus = props.href || onSort ? {} : { role: "group" as const, "aria-label": label, tabIndex: 0 };
  return (
    <div class="scroll" {...ownFocus}>
      <table class="rows" key={shape} aria-rowcount={parts.length > 1 ? rows.length + 1 : undefined}>
        <caption class="hidden">{label}</caption>
        <Head columns={columns} sort={sort} onSort={onSort} isLong={parts.length > 1} />
        {parts.map((part, i) => (
          <Part
            key={part.key}
            {...props}
            rows={part.rows}
            before={i * CHUNK - 1}
            all={rows}
            isFirst={i < 2}
            rowPx={rowPx}
            onMeasure={i === 0 ? setRowPx : undefined}
          />
        ))}
      </table>
    </div>
  );
}

const classOf = <T,>({ numeric, wide }: Column<T>) => `${numeric ? "n" : ""} ${wide ? "wide" : ""}`;

type HeadProps<T> = Pick<TableProps<T>, "columns" | "sort" | "onSort"> & { isLong: boolean };

/** The columns of a long table keep the widths of its first rows: nothing moves while others come and go. */
function Head<T>({ columns, sort, onSort, isLong }: HeadProps<T>) {
  const row = useRef<HTMLTableRowElement>(null);
  const [widths, setWidths] = useState<readonly string[]>([]);
  useLayoutEffect(() => {
    const cells = [...(row.current?.cells ?? [])].map(({ offsetWidth }) => offsetWidth);
    const all = cells.reduce((sum, width) => sum + width, 0);
    const table = row.current?.closest("table");
    if (table) table.style.tableLayout = isLong ? "fixed" : "";
    setWidths(isLong && all > 0 ? cells.map((width) => `${((100 * width) / all).toFixed(2)}%`) : []);
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
  isFirst: boolean;
  /** Height of a row that was not drawn yet. */
  rowPx: number;
  onMeasure: ((px: number) => void) | undefined;
};

const NEAR = "1500px 0px";

/** A part of the rows. Far from the screen it is an empty space of the same height. */
function Part<T>({ rows, columns, keyOf, href, sectionOf, before, all, isFirst, rowPx, onMeasure }: PartProps<T>) {
  const body = useRef<HTMLTableSectionElement>(null);
  const height = useRef<number | undefined>(undefined); // once it was drawn
  const isWhole = rows.length === all.length;
  const [isNear, setNear] = useState(isFirst || isWhole);
  useLayoutEffect(() => {
    const element = body.current;
    if (!element || isWhole) return;
    onMeasure?.(element.offsetHeight / rows.length);
    const watch = new IntersectionObserver(
      ([entry]) => {
        if (!entry) return;
        if (!entry.isIntersecting && entry.boundingClientRect.height > 0)
          height.current = entry.boundingClientRect.height;
        setNear(entry.isIntersecting);
      },
      { rootMargin: NEAR },
    );
    watch.observe(element);
    return () => watch.disconnect();
  }, [isWhole]);
  if (!isNear && !isWhole)
    return (
      <tbody ref={body} class="far">
        <tr style={{ height: `${height.current ?? rows.length * rowPx}px` }}>
          <td colSpan={columns.length} />
        </tr>
      </tbody>
    );
  const sectionAt = (i: number) => {
    const row = all[before + 1 + i];
    return row === undefined ? undefined : sectionOf?.(row);
  };
  return (
    <tbody ref={body}>
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

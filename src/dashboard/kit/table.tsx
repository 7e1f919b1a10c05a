import type { ComponentChildren } from "preact";

export type Column<T> = {
  title: string;
  cell: (row: T) => ComponentChildren;
  /** Figures are right-aligned and tabular. */
  numeric?: boolean | undefined;
  /** Not shown on narrow screens. */
  wide?: boolean | undefined;
};

type TableProps<T> = {
  /** For screen readers. */
  label: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  keyOf: (row: T) => string;
  /** The first column links there. */
  href?: ((row: T) => string) | undefined;
};

export function Table<T>({ label, rows, columns, keyOf, href }: TableProps<T>) {
  const classOf = ({ numeric, wide }: Column<T>) => `${numeric ? "n" : ""} ${wide ? "wide" : ""}`;
  return (
    <div class="scroll">
      <table class="rows">
        <caption class="hidden">{label}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.title} scope="col" class={classOf(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column, i) => (
                <td key={column.title} class={classOf(column)} data-title={column.title}>
                  {i === 0 && href ? (
                    <a class="rowlink" href={href(row)}>
                      {column.cell(row)}
                    </a>
                  ) : (
                    column.cell(row)
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Below a list with a cursor. */
export const More = ({ list }: { list: { hasMore: boolean; more: () => Promise<void> } }) =>
  list.hasMore ? (
    <button type="button" class="btn more" onClick={() => void list.more()}>
      Show more
    </button>
  ) : null;

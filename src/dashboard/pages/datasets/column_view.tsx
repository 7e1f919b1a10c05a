/** The columns that a list of rows shows, with their types at its head. A narrow screen shows a row as one text. */
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { createStatistics } from "../../../lib/rows/statistics.ts";
import type { RowList } from "../../../resources/data/datasets/schema.ts";
import { useResource } from "../../data/resource.ts";
import { type ColumnFacts, typeName } from "./columns.tsx";

const MOST = 8;
const COLUMN_PX = 140;
const PLACE_PX = 76;
const SAMPLE = 20; // rows that tell the columns

export type ColumnView = { columns: readonly string[]; head: ComponentChildren; minWidth: number };

/** Columns that a model reads come first. */
const FIRST = ["messages", "prompt", "completion", "chosen", "rejected", "answer", "label"];
const rank = ({ name }: ColumnFacts) => {
  const at = FIRST.indexOf(name);
  return at < 0 ? FIRST.length : at;
};

export function useColumnView(id: string, snapshot: string | undefined, isUsed: boolean): ColumnView {
  const pinned = snapshot === undefined ? "live=1" : `snapshot=${encodeURIComponent(snapshot)}`;
  const { data } = useResource<RowList>(isUsed ? `/v1/datasets/${id}/rows?${pinned}&limit=${SAMPLE}` : null);
  const [isWide] = useState(() => matchMedia("(min-width: 761px)").matches);
  const all = useMemo(() => {
    const statistics = createStatistics();
    for (const { row_id, data: row } of data?.data ?? []) if (row) statistics.add(row, row_id);
    return statistics.result().columns.sort((a, b) => rank(a) - rank(b));
  }, [data]);
  if (!isWide) return { columns: [], head: undefined, minWidth: 0 };
  const shown = all.slice(0, MOST);
  return {
    columns: shown.map(({ name }) => name),
    minWidth: PLACE_PX + COLUMN_PX * shown.length,
    head: (
      <>
        <span class="datasets-place">Row</span>
        {shown.map((column) => (
          <span key={column.name} class="datasets-text" title={column.name}>
            <b>{column.name}</b> <small>{typeName(column)}</small>
          </span>
        ))}
        {all.length > MOST && <small>and {all.length - MOST} more</small>}
      </>
    ),
  };
}

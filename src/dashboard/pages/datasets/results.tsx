/** Rows that contain a text. The server compares a part of the rows in each call, so the page shows how far it came. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { RowList as RowPage, StreamRow } from "../../../resources/data/datasets/schema.ts";
import { api } from "../../data/api.ts";
import { count, plural } from "../../data/format.ts";
import { Button } from "../../kit/button.tsx";
import { Empty, Skeleton } from "../../kit/page.tsx";
import { setQuery } from "../../shell/router.ts";
import type { ColumnView } from "./column_view.tsx";
import { RowList } from "./row_list.tsx";
import { placeOf } from "./row_store.ts";
import { RowLine } from "./row_view.tsx";

/** More results are not searched for: a narrower text finds them. */
const MOST = 1_000;
const HEIGHT = 504;

type SearchState = { rows: StreamRow[]; compared: number; done: boolean; error?: string };
type Props = {
  id: string;
  snapshot: string | undefined;
  head: number;
  text: string;
  place: number | undefined;
  view: ColumnView;
};

export function Results({ id, snapshot, head, text, place, view }: Props) {
  const [result, setResult] = useState<SearchState>({ rows: [], compared: 0, done: false });
  useEffect(() => {
    const stop = new AbortController();
    void search({ id, snapshot, text }, stop.signal, setResult);
    return () => stop.abort();
  }, [id, snapshot, text]);
  const { rows, compared, done, error } = result;
  const share = done ? "" : ` · compared ${count(compared)} of ${count(head)} rows`;
  return (
    <>
      <p class="muted datasets-found" role="status">
        {error ?? `${plural(rows.length, "row")}${rows.length >= MOST ? " or more" : ""}${share}`}
      </p>
      {rows.length === 0 && !done && error === undefined && <Skeleton height={HEIGHT} />}
      {rows.length === 0 && done && (
        <Empty
          title="No row contains this text"
          action={<Button onClick={() => setQuery({ q: undefined })}>Clear the search</Button>}
        >
          The text is searched in all columns, whatever its case. Try a shorter one.
        </Empty>
      )}
      {rows.length > 0 && (
        <RowList
          label="Rows that contain the text"
          rows={rows.length}
          height={HEIGHT}
          head={view.head}
          minWidth={view.minWidth}
          row={(index) => {
            const row = rows[index];
            if (!row) return null;
            const at = placeOf(row);
            return (
              <RowLine
                place={at}
                row={row}
                columns={view.columns}
                chosen={at === place}
                onPick={() => setQuery({ row: at })}
              />
            );
          }}
        />
      )}
    </>
  );
}

type Search = { id: string; snapshot: string | undefined; text: string };

async function search({ id, snapshot, text }: Search, signal: AbortSignal, report: (state: SearchState) => void) {
  const rows: StreamRow[] = [];
  const pinned = snapshot === undefined ? "" : `&snapshot=${encodeURIComponent(snapshot)}`;
  let from = 1;
  try {
    for (;;) {
      const query = `contains=${encodeURIComponent(text)}&ignore_case=true&from_row=${from}&limit=100${pinned}`;
      const page = await api<RowPage>(`/v1/datasets/${id}/rows?${query}`, { signal });
      rows.push(...page.data);
      const compared = page.scanned_to ?? 0;
      const done = !page.has_more || rows.length >= MOST;
      report({ rows: [...rows], compared, done });
      if (done) return;
      from = compared + 1;
    }
  } catch (error) {
    if (!signal.aborted) report({ rows, compared: from, done: true, error: errorText(error) });
  }
}

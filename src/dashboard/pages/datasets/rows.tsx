/** The rows of a dataset or a snapshot: the list, the search and the chosen row. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Dataset, Snapshot } from "../../../resources/data/datasets/schema.ts";
import { count } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Skeleton } from "../../kit/page.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { ChosenRow } from "./chosen_row.tsx";
import { type ColumnView, useColumnView } from "./column_view.tsx";
import { Results } from "./results.tsx";
import { RowList } from "./row_list.tsx";
import { createRowStore } from "./row_store.ts";
import { RowLine } from "./row_view.tsx";

const LIST_HEIGHT = 540;
const TYPING_MS = 250;

export function Rows({ dataset, snapshots }: { dataset: Dataset; snapshots: readonly Snapshot[] }) {
  const snapshot = snapshots.find(({ id }) => id === queryOf("snapshot"));
  const head = snapshot?.head_row ?? dataset.head_row;
  const place = Number(queryOf("row")) || undefined;
  const search = queryOf("q");
  const isConnected = dataset.num_rows === null && !snapshot;
  const view = useColumnView(dataset.id, snapshot?.id, !isConnected && head > 0);
  if (isConnected) return <Connected snapshots={snapshots} />;
  return (
    <div class="grid two">
      <Card
        title={snapshot ? `Rows of ${snapshot.id}` : "Rows"}
        note={`${count(snapshot?.row_count ?? dataset.num_rows)} live`}
        side={<Controls head={head} search={search ?? ""} snapshots={snapshots} snapshot={snapshot?.id ?? ""} />}
      >
        {search === undefined ? (
          <AllRows id={dataset.id} snapshot={snapshot?.id} head={head} place={place} view={view} />
        ) : (
          <Results
            key={search}
            id={dataset.id}
            snapshot={snapshot?.id}
            head={head}
            text={search}
            place={place}
            view={view}
          />
        )}
      </Card>
      <Card title={place === undefined ? "Row" : `Row ${count(place)}`}>
        {place === undefined ? (
          <p class="muted">Choose a row to see it whole, with the samples that runs made from it.</p>
        ) : (
          <ChosenRow dataset={dataset} snapshot={snapshot?.id} place={place} />
        )}
      </Card>
    </div>
  );
}

type AllProps = {
  id: string;
  snapshot: string | undefined;
  head: number;
  place: number | undefined;
  view: ColumnView;
};

function AllRows({ id, snapshot, head, place, view }: AllProps) {
  const store = useMemo(() => createRowStore(id, snapshot, head), [id, snapshot, head]);
  void store.version.value;
  if (head === 0)
    return (
      <Empty
        title="No row yet"
        command={`verk datasets append ${id} rows.jsonl`}
        action={may("training", false) && <Button onClick={() => setQuery({ add: "1" })}>Append rows</Button>}
      >
        Append rows here, or from a program with POST /v1/datasets/{id}/rows.
      </Empty>
    );
  return (
    <>
      {store.error.value !== undefined && (
        <p class="bad" role="alert">
          {store.error.value}
        </p>
      )}
      <RowList
        label="Rows of the dataset"
        rows={head}
        height={LIST_HEIGHT}
        head={view.head}
        minWidth={view.minWidth}
        onRange={store.want}
        focus={place === undefined ? undefined : place - 1}
        row={(index) => (
          <RowLine
            place={index + 1}
            row={store.rowAt(index + 1)}
            columns={view.columns}
            chosen={index + 1 === place}
            onPick={() => setQuery({ row: index + 1 })}
          />
        )}
      />
    </>
  );
}

type ControlsProps = { head: number; search: string; snapshots: readonly Snapshot[]; snapshot: string };

function Controls({ head, search, snapshots, snapshot }: ControlsProps) {
  const [typed, setTyped] = useState<string>();
  const [row, setRow] = useState("");
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const find = (text: string) => {
    setTyped(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      setQuery({ q: text === "" ? undefined : text, row: undefined });
      setTyped(undefined);
    }, TYPING_MS);
  };
  const go = (event: Event) => {
    event.preventDefault();
    const wanted = Math.min(head, Math.max(1, Math.floor(Number(row.replaceAll(/[^\d]/g, "")))));
    if (Number.isFinite(wanted)) setQuery({ row: wanted, q: undefined });
  };
  return (
    <div class="row datasets-controls">
      <input
        type="search"
        aria-label="Search the rows"
        placeholder="Search all columns"
        value={typed ?? search}
        onInput={(event) => find(event.currentTarget.value)}
      />
      <form class="row" onSubmit={go}>
        <input
          class="datasets-goto"
          inputMode="numeric"
          aria-label="Go to row"
          placeholder="Row"
          value={row}
          onInput={(event) => setRow(event.currentTarget.value)}
        />
        <Button submit>Go</Button>
      </form>
      {snapshots.length > 0 && (
        <select
          aria-label="Snapshot"
          value={snapshot}
          onChange={(event) => setQuery({ snapshot: event.currentTarget.value, row: undefined })}
        >
          <option value="">Current rows</option>
          {snapshots.map(({ id }) => (
            <option key={id} value={id}>
              {id}
            </option>
          ))}
        </select>
      )}
    </div>
  );
}

const Connected = ({ snapshots }: { snapshots: readonly Snapshot[] }) =>
  snapshots.length === 0 ? (
    <Card>
      <Empty title="Not read yet">
        This dataset is a connected source. Its rows are read into a snapshot by the first run that uses it.
      </Empty>
    </Card>
  ) : (
    <Card title="Snapshots of the source">
      <div class="row">
        {snapshots.map(({ id, row_count }) => (
          <Button key={id} onClick={() => setQuery({ snapshot: id })}>
            {`${id}: ${count(row_count)} rows`}
          </Button>
        ))}
      </div>
    </Card>
  );

export const useSnapshots = (id: string) =>
  useResource<{ data: Snapshot[] }>(`/v1/datasets/${id}/snapshots?limit=100`, { events: ["dataset."] });

export const RowsSkeleton = () => <Skeleton height={LIST_HEIGHT} />;

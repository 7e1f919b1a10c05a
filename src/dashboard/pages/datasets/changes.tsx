/** Snapshots, and the differences between two of them. */

import { useState } from "preact/hooks";
import type { Dataset, Diff as DiffPage, RowList, Snapshot } from "../../../resources/datasets/schema.ts";
import { api } from "../../data/api.ts";
import { bytes, count, words } from "../../data/format.ts";
import { reload, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card, Stat } from "../../kit/card.tsx";
import { Diff } from "../../kit/diff.tsx";
import { SelectField } from "../../kit/field.tsx";
import { Empty, Loaded } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";

type Change = DiffPage["data"][number];
const NAMES = { added: "Added", superseded: "Changed", tombstoned: "Removed" } as const;
const TONES = { added: "good", superseded: "warn", tombstoned: "bad" } as const;

export function Changes({ dataset, snapshots }: { dataset: Dataset; snapshots: readonly Snapshot[] }) {
  const cut = () =>
    attempt(async () => {
      await api(`/v1/datasets/${dataset.id}/snapshots`, { method: "POST", body: {} });
      await reload(`/v1/datasets/${dataset.id}`);
    }, "Snapshot cut");
  const button = may("training", false) && dataset.num_rows !== null && <Button onClick={cut}>Cut a snapshot</Button>;
  if (snapshots.length === 0)
    return (
      <Card>
        <Empty title="No snapshot yet" command={`verk datasets snapshot ${dataset.id}`} action={button}>
          A snapshot fixes the rows of a run, so that the run can be repeated. Each run cuts one by itself.
        </Empty>
      </Card>
    );
  return (
    <div class="grid">
      {snapshots.length > 1 && dataset.num_rows !== null && <Compare dataset={dataset} snapshots={snapshots} />}
      <Card title="Snapshots" side={button}>
        <Table
          label="Snapshots"
          rows={snapshots}
          keyOf={({ id }) => id}
          href={({ id }) => `/datasets/${dataset.id}?snapshot=${encodeURIComponent(id)}`}
          columns={[
            { title: "Snapshot", cell: ({ id }) => id },
            { title: "Rows", cell: ({ row_count }) => count(row_count), numeric: true },
            { title: "Size", cell: ({ size_bytes }) => bytes(size_bytes), numeric: true, wide: true },
            { title: "Cut", cell: ({ created_at }) => <Time at={created_at} /> },
            { title: "By", cell: ({ trigger, job_id }) => (job_id ? <RunLink id={job_id} /> : words(trigger)) },
            { title: "SHA-256", cell: ({ sha256 }) => <code>{sha256.slice(0, 12)}</code>, wide: true },
          ]}
        />
      </Card>
    </div>
  );
}

const RunLink = ({ id }: { id: string }) => (
  <a class="datasets-link" href={`/runs/${id}`}>
    Run
  </a>
);

function Compare({ dataset, snapshots }: { dataset: Dataset; snapshots: readonly Snapshot[] }) {
  const [newest, before] = snapshots;
  const from = queryOf("from") ?? before?.id ?? "";
  const to = queryOf("to") ?? newest?.id ?? "";
  const numberOf = (id: string) => snapshots.find((each) => each.id === id)?.number ?? 0;
  const [low, high] = numberOf(from) <= numberOf(to) ? [from, to] : [to, from];
  const path = `/v1/datasets/${dataset.id}/snapshots/${encodeURIComponent(low)}/diff/${encodeURIComponent(high)}`;
  const diff = useResource<DiffPage>(`${path}?limit=50`);
  const options = snapshots.map(({ id, row_count }) => [id, `${id} (${count(row_count)} rows)`] as const);
  return (
    <Card title="Differences">
      <div class="grid half">
        <SelectField label="From" value={from} options={options} onChange={(value) => setQuery({ from: value })} />
        <SelectField label="To" value={to} options={options} onChange={(value) => setQuery({ to: value })} />
      </div>
      <Loaded of={diff}>
        {(page) => <Differences key={`${low}${high}`} dataset={dataset} path={path} from={low} page={page} />}
      </Loaded>
    </Card>
  );
}

type DifferencesProps = { dataset: Dataset; path: string; from: string; page: DiffPage };

function Differences({ dataset, path, from, page }: DifferencesProps) {
  const [more, setMore] = useState<{ data: Change[]; hasMore: boolean }>({ data: [], hasMore: page.has_more });
  const all = [...page.data, ...more.data];
  const next = async () => {
    const got = await api<DiffPage>(`${path}?limit=50&after=${all.at(-1)?.row_id ?? 0}`);
    setMore({ data: [...more.data, ...got.data], hasMore: got.has_more });
  };
  return (
    <div class="stack">
      <div class="grid stats">
        <Stat label="Added" value={count(page.added)} />
        <Stat label="Changed" value={count(page.superseded)} />
        <Stat label="Removed" value={count(page.tombstoned)} />
      </div>
      {all.length === 0 && <p class="muted">Both snapshots have the same rows.</p>}
      {all.map((change) => (
        <div key={change.row_id} class="datasets-turn">
          <div class="row">
            <Pill tone={TONES[change.change]}>{NAMES[change.change]}</Pill>
            <small class="muted">row {count(change.target_row_id ?? change.row_id)}</small>
          </div>
          {change.change === "added" ? (
            <pre class="text">{pretty(change.data)}</pre>
          ) : (
            <Before dataset={dataset} from={from} change={change} />
          )}
        </div>
      ))}
      {more.hasMore && <Button onClick={() => attempt(next)}>Show more</Button>}
    </div>
  );
}

const pretty = (data: unknown) => JSON.stringify(data, null, 1);

/** The content in the older snapshot. A row that was added and changed in between has none. */
function Before({ dataset, from, change }: { dataset: Dataset; from: string; change: Change }) {
  const place = change.target_row_id ?? change.row_id;
  const query = `snapshot=${encodeURIComponent(from)}&from_row=${place}&limit=1`;
  const { data, error } = useResource<RowList>(`/v1/datasets/${dataset.id}/rows?${query}`);
  if (!data && !error) return <pre class="text">{pretty(change.data)}</pre>;
  const row = data?.data.find((each) => (each.target_row_id ?? each.row_id) === place);
  if (!row) return <pre class="text">{change.data === null ? "" : pretty(change.data)}</pre>;
  return <Diff before={pretty(row.data)} after={change.data === null ? "" : pretty(change.data)} />;
}

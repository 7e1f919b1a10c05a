/** Snapshots, and the differences between two of them. */

import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { Dataset, Diff as DiffPage, RowList, Snapshot } from "../../../resources/data/datasets/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { bytes, count, words } from "../../data/format.ts";
import { reload } from "../../data/resource.ts";
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
      {snapshots.length > 1 && dataset.num_rows !== null && <Compare dataset={dataset} snapshots={snapshots} />}
    </div>
  );
}

const RunLink = ({ id }: { id: string }) => (
  <a class="datasets-link" href={`/runs/${id}`}>
    Run
  </a>
);

/** `before`: contents in the older snapshot, by place. They are loaded first, so that nothing moves when they come. */
type Compared = { page: DiffPage; before: ReadonlyMap<number, unknown> };
const placeOf = ({ row_id, target_row_id }: { row_id: number; target_row_id: number | null }) =>
  target_row_id ?? row_id;

async function compare(dataset: Dataset, [low, high]: readonly [string, string], after = 0): Promise<Compared> {
  const path = `/v1/datasets/${dataset.id}/snapshots/${encodeURIComponent(low)}/diff/${encodeURIComponent(high)}`;
  const page = await api<DiffPage>(`${path}?limit=50${after === 0 ? "" : `&after=${after}`}`);
  const before = new Map<number, unknown>();
  const read = async (place: number) => {
    const query = `snapshot=${encodeURIComponent(low)}&from_row=${place}&limit=1`;
    const { data } = await api<RowList>(`/v1/datasets/${dataset.id}/rows?${query}`);
    const row = data.find((each) => placeOf(each) === place);
    if (row) before.set(place, row.data);
  };
  await Promise.all(page.data.filter(({ change }) => change !== "added").map((change) => read(placeOf(change))));
  return { page, before };
}

function Compare({ dataset, snapshots }: { dataset: Dataset; snapshots: readonly Snapshot[] }) {
  const [newest, previous] = snapshots;
  const from = queryOf("from") ?? previous?.id ?? "";
  const to = queryOf("to") ?? newest?.id ?? "";
  const numberOf = (id: string) => snapshots.find((each) => each.id === id)?.number ?? 0;
  const [low, high] = numberOf(from) <= numberOf(to) ? [from, to] : [to, from];
  const [comparison, setComparison] = useState<Compared>();
  const [error, setError] = useState<ApiError>();
  useEffect(() => {
    let isCurrent = true;
    setComparison(undefined);
    setError(undefined);
    compare(dataset, [low, high]).then(
      (result) => isCurrent && setComparison(result),
      (cause: unknown) =>
        isCurrent && setError(cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause))),
    );
    return () => {
      isCurrent = false;
    };
  }, [dataset.id, low, high]);
  const more = async () => {
    if (!comparison) return;
    const next = await compare(dataset, [low, high], comparison.page.data.at(-1)?.row_id);
    const page = { ...next.page, data: [...comparison.page.data, ...next.page.data] };
    setComparison({ page, before: new Map([...comparison.before, ...next.before]) });
  };
  const options = snapshots.map(({ id, row_count }) => [id, `${id} (${count(row_count)} rows)`] as const);
  return (
    <Card title="Differences">
      <div class="grid half datasets-between">
        <SelectField label="From" value={from} options={options} onChange={(value) => setQuery({ from: value })} />
        <SelectField label="To" value={to} options={options} onChange={(value) => setQuery({ to: value })} />
      </div>
      <Loaded of={{ data: comparison, error, refresh: () => location.reload() }}>
        {(compared) => <Differences compared={compared} more={more} />}
      </Loaded>
    </Card>
  );
}

function Differences({ compared: { page, before }, more }: { compared: Compared; more: () => Promise<void> }) {
  return (
    <div class="stack">
      <div class="grid stats">
        <Stat label="Added" value={count(page.added)} />
        <Stat label="Changed" value={count(page.superseded)} />
        <Stat label="Removed" value={count(page.tombstoned)} />
      </div>
      {page.data.length === 0 && <p class="muted">Both snapshots have the same rows.</p>}
      {page.data.map((change) => (
        <div key={change.row_id} class="datasets-turn">
          <div class="row">
            <Pill tone={TONES[change.change]}>{NAMES[change.change]}</Pill>
            <small class="muted">row {count(placeOf(change))}</small>
          </div>
          <Diff before={pretty(before.get(placeOf(change)))} after={pretty(change.data) ?? ""} />
        </div>
      ))}
      {page.has_more && <Button onClick={() => attempt(more)}>Show more</Button>}
    </div>
  );
}

/** Undefined if there is no content. */
const pretty = (data: unknown): string | undefined =>
  data === undefined || data === null ? undefined : JSON.stringify(data, null, 1);

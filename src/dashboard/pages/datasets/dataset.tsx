import { useState } from "preact/hooks";
import type { Dataset } from "../../../resources/data/datasets/schema.ts";
import { bytes, count, NONE, words } from "../../data/format.ts";
import { deleteResource, reload, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card, Facts } from "../../kit/card.tsx";
import { Id } from "../../kit/copy.tsx";
import { Confirm } from "../../kit/dialog.tsx";
import { Page as Frame, Loaded } from "../../kit/page.tsx";
import { Tabs, tabOf } from "../../kit/tabs.tsx";
import { Time } from "../../kit/time.tsx";
import { navigate, queryOf, setQuery } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import type { PageProps } from "../spec.ts";
import { Append } from "./append.tsx";
import { Changes } from "./changes.tsx";
import { Columns } from "./columns.tsx";
import { Lineage } from "./lineage.tsx";
import { Rows, RowsSkeleton, useSnapshots } from "./rows.tsx";

const TABS = [
  ["rows", "Rows"],
  ["columns", "Columns"],
  ["changes", "Snapshots"],
  ["lineage", "Runs"],
  ["about", "About"],
] as const;

export function Page({ params }: PageProps) {
  const id = params["id"] ?? "";
  const dataset = useResource<Dataset>(`/v1/datasets/${encodeURIComponent(id)}`, { events: ["dataset."] });
  const [isDeleting, setDeleting] = useState(false);
  const data = dataset.data;
  const isStream = data !== undefined && data.num_rows !== null;
  return (
    <Frame
      title={data?.name ?? "Dataset"}
      purpose={
        data ? `${count(data.num_rows)} rows, ${bytes(data.size_bytes)}, format ${data.format ?? NONE}` : "\u00a0"
      }
      above={[["Datasets", "/datasets"]]}
      actions={
        data && (
          <>
            {isStream && (
              <a class="btn" href={`/v1/datasets/${id}/rows/export`} download>
                Export
              </a>
            )}
            {isStream && (
              <a class="btn" href={`/v1/datasets/${id}/rows/export?format=spreadsheet`} download>
                Export for spreadsheets
              </a>
            )}
            {isStream && may("training", false) && <Button onClick={() => setQuery({ add: "1" })}>Append</Button>}
            {may("training", false) && (
              <Button kind="danger" onClick={() => setDeleting(true)}>
                Delete
              </Button>
            )}
          </>
        )
      }
    >
      <Tabs label="Parts of the dataset" tabs={TABS} />
      <Loaded of={dataset} skeleton={<RowsSkeleton />}>
        {(loaded) => <Part dataset={loaded} />}
      </Loaded>
      {data && queryOf("add") === "1" && <Append dataset={data} onClose={() => setQuery({ add: undefined })} />}
      {data && isDeleting && <Delete dataset={data} onClose={() => setDeleting(false)} />}
    </Frame>
  );
}

function Part({ dataset }: { dataset: Dataset }) {
  const snapshots = useSnapshots(dataset.id);
  const tab = tabOf("rows");
  if (tab === "lineage") return <Lineage dataset={dataset} />;
  if (tab === "columns") return <Columns id={dataset.id} snapshot={queryOf("snapshot") ?? newestOf(dataset)} />;
  if (tab === "about") return <About dataset={dataset} />;
  return (
    <Loaded of={snapshots} skeleton={<RowsSkeleton />}>
      {({ data }) =>
        tab === "changes" ? <Changes dataset={dataset} snapshots={data} /> : <Rows dataset={dataset} snapshots={data} />
      }
    </Loaded>
  );
}

/** A connected dataset has rows in snapshots alone. */
const newestOf = ({ num_rows, latest_snapshot_id }: Dataset) =>
  num_rows === null ? (latest_snapshot_id ?? undefined) : undefined;

const About = ({ dataset }: { dataset: Dataset }) => (
  <div class="grid half">
    <Card title="Facts">
      <Facts
        rows={[
          ["Id", <Id key="id" text={dataset.id} />],
          ["Source", words(dataset.source_type)],
          ["Detected", dataset.detected?.summary ?? NONE],
          ["Address", dataset.source_uri ?? dataset.hub_dataset ?? NONE],
          ["Live rows", count(dataset.num_rows)],
          ["Log entries", count(dataset.head_row)],
          ["Size of the log", bytes(dataset.size_bytes)],
          ["Snapshots", count(dataset.snapshot_count)],
          ["Rows since the last snapshot", count(dataset.unsnapshotted_rows)],
          [
            "Automatic snapshot after",
            dataset.auto_snapshot_rows ? `${count(dataset.auto_snapshot_rows)} rows` : "off",
          ],
          ["Created", <Time key="made" at={dataset.created_at} />],
          ["Changed", <Time key="changed" at={dataset.updated_at} />],
        ]}
      />
    </Card>
    <Card title="Metadata">
      {Object.keys(dataset.metadata).length === 0 ? (
        <p class="muted">None.</p>
      ) : (
        <Facts rows={Object.entries(dataset.metadata)} />
      )}
    </Card>
  </div>
);

function Delete({ dataset, onClose }: { dataset: Dataset; onClose: () => void }) {
  const remove = () =>
    attempt(async () => {
      await deleteResource(`/v1/datasets/${dataset.id}`);
      void reload("/v1/datasets");
      navigate("/datasets");
    }, `Deleted ${dataset.name}`);
  return (
    <Confirm title="Delete the dataset" verb="Delete" onConfirm={remove} onClose={onClose}>
      {dataset.name} and its {count(dataset.num_rows)} rows are removed. Runs keep their results but cannot be repeated.
    </Confirm>
  );
}

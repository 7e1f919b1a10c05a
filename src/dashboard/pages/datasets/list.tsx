import { useState } from "preact/hooks";
import type { Dataset } from "../../../resources/data/datasets/schema.ts";
import { bytes, count, NONE, words } from "../../data/format.ts";
import { useList } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { Drop } from "./drop.tsx";
import { ROW_FILES, Upload } from "./upload.tsx";

export function Page() {
  const list = useList<Dataset>("/v1/datasets?limit=50", { events: ["dataset."] });
  const [file, setFile] = useState<File>();
  return (
    <Frame
      title="Datasets"
      purpose="Rows that models learn from. A row is never changed in place, so a run can be repeated."
    >
      <div class="grid">
        {may("training", false) && (
          <Drop
            label="Drop a file of rows"
            hint="or choose one: JSON lines, a JSON array, CSV, TSV or Parquet. Nothing is uploaded before you confirm"
            accept={ROW_FILES}
            onFile={setFile}
          />
        )}
        <Card>
          <Loaded of={{ ...list, data: list.items }}>
            {(rows) => (rows.length === 0 ? <NoDataset /> : <Datasets rows={rows} />)}
          </Loaded>
          <More list={list} />
        </Card>
      </div>
      {file && <Upload file={file} onClose={() => setFile(undefined)} />}
    </Frame>
  );
}

const NoDataset = () => (
  <Empty
    title="No dataset yet"
    command="verk datasets push rows.jsonl --name sums"
    action={may("training", false) && <Button onClick={chooseFile}>Choose a file</Button>}
  >
    Upload a file of rows, such as prompts and their answers: JSON, CSV, TSV or Parquet.
  </Empty>
);

const chooseFile = () => document.querySelector<HTMLButtonElement>(".datasets-drop")?.click();

const Datasets = ({ rows }: { rows: readonly Dataset[] }) => (
  <Table
    label="Datasets"
    rows={rows}
    keyOf={({ id }) => id}
    href={({ id }) => `/datasets/${id}`}
    columns={[
      { title: "Name", cell: ({ name }) => name },
      { title: "Rows", cell: ({ num_rows }) => count(num_rows), numeric: true },
      { title: "Size", cell: ({ size_bytes }) => bytes(size_bytes), numeric: true, wide: true },
      { title: "Format", cell: ({ format }) => format ?? NONE, wide: true },
      { title: "Source", cell: ({ source_type }) => words(source_type), wide: true },
      { title: "Snapshots", cell: ({ snapshot_count }) => count(snapshot_count), numeric: true, wide: true },
      { title: "Changed", cell: ({ updated_at }) => <Time at={updated_at} /> },
    ]}
  />
);

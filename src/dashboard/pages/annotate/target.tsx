/** The dataset that gets the rows of a queue. */
import { useState } from "preact/hooks";
import type { Dataset } from "../../../resources/data/datasets/schema.ts";
import type { AnnotationQueue } from "../../../resources/quality/annotation_queues/schema.ts";
import { api } from "../../data/api.ts";
import { count } from "../../data/format.ts";
import { type Page, reload, useResource } from "../../data/resource.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Ref } from "../../kit/content.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { SelectField } from "../../kit/field.tsx";
import { attempt } from "../../shell/toasts.tsx";

type Mode = AnnotationQueue["mode"];

/** The format of the rows, and the method that trains on them. */
const OF_MODE = {
  pairwise: { format: "preference", method: "dpo", suffix: "preferences" },
  single: { format: "completion", method: "sft", suffix: "answers" },
} as const;

export const NEW = "new";
export const NOWHERE = "";

export const newName = (queue: string, mode: Mode) => `${queue.trim() || "queue"}-${OF_MODE[mode].suffix}`;

type TargetProps = { mode: Mode; queue: string; value: string; onChange: (value: string) => void };

export function TargetField({ mode, queue, value, onChange }: TargetProps) {
  const datasets = useResource<Page<Dataset>>("/v1/datasets?limit=100", { events: ["dataset."] });
  const { format } = OF_MODE[mode];
  const fitting = (datasets.data?.data ?? []).filter((each) => each.format === format && each.source_type === "upload");
  const shown = fitting.some(({ id }) => id === value) || value === NEW || value === NOWHERE ? value : NEW;
  return (
    <SelectField
      label="Results go to"
      value={shown}
      options={[
        [NEW, `New dataset ${newName(queue, mode)}`],
        ...fitting.map(({ id, name, num_rows: rows }) => [id, `${name} · ${count(rows)} rows`] as const),
        [NOWHERE, "No dataset"],
      ]}
      onChange={onChange}
      hint="Each finished item becomes a row to train on."
    />
  );
}

/** The id of the chosen dataset, which is created first if it is a new one. */
export async function targetOf(value: string, queue: string, mode: Mode): Promise<string | null> {
  if (value === NOWHERE) return null;
  if (value !== NEW) return value;
  const body = { name: newName(queue, mode), format: OF_MODE[mode].format };
  return (await api<Dataset>("/v1/datasets", { method: "POST", body })).id;
}

/** No event says that a row has come. */
const ROWS_MS = 3_000;

/** The dataset that gets the rows. `id` null: none does. */
export const useTarget = (id: string | null) =>
  useResource<Dataset>(id === null ? null : `/v1/datasets/${encodeURIComponent(id)}`, {
    events: ["dataset.", "annotation_"],
    everyMs: ROWS_MS,
  });

/** Opens New run with the rows of the queue, once there is one. */
export function TrainOnThese({ queue, rows }: { queue: AnnotationQueue; rows: Dataset }) {
  if (!rows.num_rows) return null;
  const query = new URLSearchParams({ method: OF_MODE[queue.mode].method, dataset: rows.id });
  return <LinkButton href={`/runs/new?${query}`}>Train on these</LinkButton>;
}

/** The dataset by its name, as a link. */
export function DatasetName({ id }: { id: string }) {
  const dataset = useResource<Dataset>(`/v1/datasets/${encodeURIComponent(id)}`);
  return <Ref page="/datasets/:id" id={id} children={dataset.data?.name ?? id} />;
}

type SetTargetProps = { queue: AnnotationQueue; path: string; onClose: () => void };

/** For a queue without a dataset: items that are finished from now on become rows. */
export function SetTarget({ queue, path, onClose }: SetTargetProps) {
  const [value, setValue] = useState(NEW);
  const save = async () => {
    const done = await attempt(async () => {
      const dataset_id = await targetOf(value, queue.name, queue.mode);
      await api(path, { method: "PATCH", body: { dataset_id } });
      await reload(path);
      return true;
    });
    if (done) onClose();
  };
  return (
    <Dialog title="Set the dataset of this queue" onClose={onClose}>
      <div class="stack">
        <TargetField mode={queue.mode} queue={queue.name} value={value} onChange={setValue} />
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" disabled={value === NOWHERE} onClick={save}>
            Set
          </Button>
        </footer>
      </div>
    </Dialog>
  );
}

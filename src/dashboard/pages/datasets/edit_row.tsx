/** A row is never changed in place: an edit appends an entry with its new content, and runs of old snapshots keep the old. */
import { useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import { isRow } from "../../../lib/rows/format.ts";
import type { Append, Dataset, StreamRow } from "../../../resources/data/datasets/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { JsonField } from "../../kit/code/editor.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Diff } from "../../kit/diff.tsx";
import { ErrorBox } from "../../kit/page.tsx";
import { toast } from "../../shell/toasts.tsx";
import { placeOf } from "./row_store.ts";

type Props = { dataset: Dataset; row: StreamRow; onClose: () => void };

export function EditRow({ dataset, row, onClose }: Props) {
  const before = JSON.stringify(row.data, null, 2);
  const [text, setText] = useState(before);
  const [error, setError] = useState<ApiError>();
  const parsed = parse(text);
  const place = placeOf(row);
  const send = async (change: object, done: string) => {
    try {
      await api<Append>(`/v1/datasets/${dataset.id}/rows`, { method: "POST", body: { rows: [change] } });
      toast(done);
      onClose();
      await reload(`/v1/datasets/${dataset.id}`);
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause)));
    }
  };
  const isChanged = parsed.row !== undefined && JSON.stringify(parsed.row) !== JSON.stringify(row.data);
  return (
    <Dialog title={`Edit row ${place}`} onClose={onClose} wide>
      <div class="stack">
        <JsonField
          label="Content"
          rows={10}
          value={text}
          onInput={setText}
          error={parsed.fault}
          hint="One JSON object. Snapshots that were cut before keep the earlier content"
        />
        {isChanged && (
          <section class="datasets-turn" aria-label="Changes">
            <Diff before={before} after={JSON.stringify(parsed.row, null, 2)} />
          </section>
        )}
        {error && <ErrorBox error={error} />}
      </div>
      <footer>
        <Button kind="danger" onClick={() => send({ _op: "tombstone", _row_id: place }, "Row removed")}>
          Remove row
        </Button>
        <span class="fill" />
        <Button onClick={onClose}>Cancel</Button>
        <Button
          kind="primary"
          disabled={!isChanged}
          onClick={() => send({ ...parsed.row, _op: "supersede", _row_id: place }, "Row changed")}
        >
          Save
        </Button>
      </footer>
    </Dialog>
  );
}

function parse(text: string): { row?: Record<string, unknown>; fault?: string } {
  try {
    const row: unknown = JSON.parse(text);
    return isRow(row) ? { row } : { fault: "A row is a JSON object" };
  } catch (error) {
    return { fault: errorText(error) };
  }
}

/** More rows for a dataset, typed or dropped. */
import { useMemo, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { Append as Appended, Dataset } from "../../../resources/data/datasets/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { plural } from "../../data/format.ts";
import { reload } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { JsonField } from "../../kit/code/editor.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { ErrorBox } from "../../kit/page.tsx";
import { toast } from "../../shell/toasts.tsx";
import { Drop } from "./drop.tsx";
import { PreviewRows } from "./preview_rows.tsx";
import { usePreview } from "./upload.tsx";

const EXAMPLE = '{"prompt": "2 + 2 = ?", "answer": "4"}';

export function Append({ dataset, onClose }: { dataset: Dataset; onClose: () => void }) {
  const [text, setText] = useState("");
  const [file, setFile] = useState<File>();
  const [error, setError] = useState<ApiError>();
  const typed = useMemo(() => (text === "" ? undefined : new Blob([text])), [text]);
  const body = file ?? typed;
  const preview = usePreview(body);
  const append = async () => {
    try {
      const { appended, superseded, tombstoned } = await api<Appended>(`/v1/datasets/${dataset.id}/rows`, {
        method: "POST",
        body,
        headers: { "content-type": "application/x-ndjson" },
      });
      toast(`Appended ${plural(appended, "row")}, changed ${superseded}, removed ${tombstoned}`);
      void reload(`/v1/datasets/${dataset.id}`);
      onClose();
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause)));
    }
  };
  return (
    <Dialog title={`Append to ${dataset.name}`} onClose={onClose} wide>
      <div class="stack">
        <JsonField
          label="Rows"
          value={text}
          onInput={setText}
          rows={4}
          isLines
          placeholder={EXAMPLE}
          hint="One JSON object on each line. _op and _row_id change or remove an earlier row."
        />
        <Drop
          label={file ? file.name : "Or drop a file"}
          hint="JSON lines"
          accept=".jsonl,.ndjson,.json"
          onFile={setFile}
        />
        {body && preview && <PreviewRows preview={preview} />}
        {error && <ErrorBox error={error} />}
      </div>
      <footer>
        <Button onClick={onClose}>Cancel</Button>
        <Button kind="primary" onClick={append} disabled={!body || !preview || preview.faults.length > 0}>
          Append
        </Button>
      </footer>
    </Dialog>
  );
}

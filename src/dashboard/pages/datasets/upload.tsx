/** A file is dropped or chosen: its first rows as the model will read them, then the upload. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { ColumnMap } from "../../../lib/rows/columns.ts";
import { SHAPE_FACTS, SHAPES, type Shape } from "../../../lib/rows/shape.ts";
import type { Dataset } from "../../../resources/data/datasets/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { bytes } from "../../data/format.ts";
import { reload } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { ErrorBox, Skeleton } from "../../kit/page.tsx";
import { navigate } from "../../shell/router.ts";
import { toast } from "../../shell/toasts.tsx";
import {
  ambiguousShapes,
  type FileRows,
  filePreviewOf,
  fileRowsOf,
  firstMapOf,
  type Preview,
  previewOf,
  proposedMap,
} from "./file_preview.ts";
import { Mapping, mapText } from "./mapping.tsx";
import { PreviewRows } from "./preview_rows.tsx";
import { type ServerPreview, useServerPreview } from "./server_preview.ts";

const PREVIEW_BYTES = 256 * 1024;

/** The preview of the first bytes, as `read` makes it. Undefined until they are read. */
function useFirstBytes<T>(file: Blob | undefined, read: (start: Uint8Array, isWhole: boolean) => T): T | undefined {
  const [preview, setPreview] = useState<{ of: T }>();
  useEffect(() => {
    if (!file) return;
    let isCurrent = true;
    void file
      .slice(0, PREVIEW_BYTES)
      .arrayBuffer()
      .then((start) => isCurrent && setPreview({ of: read(new Uint8Array(start), file.size <= PREVIEW_BYTES) }));
    return () => {
      isCurrent = false;
    };
  }, [file]);
  return preview?.of;
}

/** For rows to append, which are JSON lines. */
export const usePreview = (file: Blob | undefined): Preview | undefined =>
  useFirstBytes(file, (start, isWhole) => previewOf(new TextDecoder().decode(start), isWhole));

export const ROW_FILES = ".jsonl,.ndjson,.json,.csv,.tsv,.parquet,.pq,.gz,.zst";
const ENDING = /\.(jsonl|ndjson|json|csv|tsv|parquet|pq)(\.(gz|gzip|zst|zstd))?$/i;

export function Upload({ file, onClose }: { file: File; onClose: () => void }) {
  const read = useFirstBytes(file, (start, isWhole) => ({ rows: fileRowsOf(start, file.name, isWhole) }));
  // A dialog that grows would move under the pointer, so it waits.
  return read ? <Prepared file={file} rows={read.rows} onClose={onClose} /> : null;
}

type PreparedProps = { file: File; rows: FileRows | undefined; onClose: () => void };

/** `rows` undefined: only the server can read the file. */
function Prepared({ file, rows, onClose }: PreparedProps) {
  const [name, setName] = useState(file.name.replace(ENDING, ""));
  const [map, setMap] = useState<ColumnMap>(() => (rows ? firstMapOf(rows) : {}));
  const [typedMap, setTypedMap] = useState("");
  const [shape, setShape] = useState<Shape | "">("");
  const [error, setError] = useState<ApiError>();
  const sent = rows ? mapText(map) : typedMap;
  const server = useServerPreview(rows ? undefined : file, sent, shape);
  const preview = useMemo(
    () => (rows ? filePreviewOf(rows, map, shape === "" ? undefined : shape) : undefined),
    [rows, map, shape],
  );
  const shapes = useMemo(() => (rows ? safely(() => ambiguousShapes(rows, map)) : []), [rows, map]);
  useEffect(() => {
    if (server?.state === "refused" && typedMap === "") setTypedMap(proposedMap(server.error.message) ?? "");
  }, [server]);
  const upload = async () => {
    const form = new FormData();
    for (const [field, value] of Object.entries({ name, map: sent, shape })) if (value !== "") form.set(field, value);
    form.set("file", file); // the last: the server reads the others before it
    try {
      const { id, name: stored, detected } = await api<Dataset>("/v1/datasets", { method: "POST", body: form });
      toast(detected ? `Uploaded ${stored}: ${detected.summary}` : `Uploaded ${stored}`);
      void reload("/v1/datasets");
      onClose();
      navigate(`/datasets/${id}`);
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause)));
    }
  };
  const needsShape = (shapes.length > 0 || asksShape(server)) && shape === "";
  const isWrong = preview
    ? preview.faults.length > 0 || preview.rows.length === 0
    : server?.state === "refused" || server?.state === "reading";
  return (
    <Dialog title="Upload a dataset" onClose={onClose} wide>
      <div class="stack">
        <TextField label="Name" value={name} onInput={setName} hint={`${file.name}, ${bytes(file.size)}`} />
        {rows && rows.columns.length > 0 && <Mapping file={rows} map={map} onChange={setMap} />}
        {preview?.shape === undefined && shapes.length === 0 && rows && rows.columns.length > 0 && (
          <p class="muted">No column is known: choose above which one is the prompt, and which one the answer.</p>
        )}
        {!rows && (typedMap !== "" || server?.state === "refused") && (
          <TextField
            label="Columns"
            value={typedMap}
            onInput={setTypedMap}
            mono
            hint="Which field a column becomes: question=prompt,answer=completion"
          />
        )}
        {(shapes.length > 0 || asksShape(server) || shape !== "") && (
          <SelectField label="Shape" value={shape} options={SHAPE_OPTIONS} onChange={setShape} />
        )}
        {preview && <PreviewRows preview={preview} />}
        {server && <FromServer of={server} />}
        {error && <ErrorBox error={error} />}
      </div>
      <footer>
        <Button onClick={onClose}>Cancel</Button>
        <Button kind="primary" onClick={upload} disabled={name.trim() === "" || isWrong || needsShape}>
          Upload
        </Button>
      </footer>
    </Dialog>
  );
}

const asksShape = (server: ServerPreview | undefined) => server?.state === "refused" && server.error.param === "shape";

/** Nothing while two columns have one name. */
function safely<T>(read: () => readonly T[]): readonly T[] {
  try {
    return read();
  } catch {
    return [];
  }
}

function FromServer({ of }: { of: ServerPreview }) {
  if (of.state === "refused") return <ErrorBox error={of.error} title="The file cannot be used like this" />;
  if (of.state === "unread")
    return <p class="muted">The file is large: the server reads it with the upload, and says what it found.</p>;
  return (
    <>
      <p class="muted" role="status">
        {of.state === "reading" ? "The server reads the file…" : of.summary}
      </p>
      {of.state === "reading" ? <Skeleton height={160} /> : <PreviewRows preview={of.preview} />}
    </>
  );
}

const SHAPE_OPTIONS: readonly (readonly [Shape | "", string])[] = [
  ["", "Choose one"],
  ...SHAPES.map((shape) => [shape, `${SHAPE_FACTS[shape].label} (${SHAPE_FACTS[shape].columns})`] as const),
];

/** A file is dropped or chosen: its first rows as the model will read them, then the upload. */
import { useEffect, useRef, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import { SHAPE_FACTS, SHAPES, type Shape } from "../../../lib/rows/shape.ts";
import type { Dataset } from "../../../resources/data/datasets/schema.ts";
import type { Model } from "../../../resources/serving/models/schema.ts";
import type { RenderedTemplate } from "../../../resources/serving/models/template.ts";
import { ApiError, api } from "../../data/api.ts";
import { bytes, plural } from "../../data/format.ts";
import { type Page, reload, useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { ErrorBox } from "../../kit/page.tsx";
import { navigate } from "../../shell/router.ts";
import { toast } from "../../shell/toasts.tsx";
import { Turns } from "./row_view.tsx";
import { conversationOf, filePreviewOf, type Preview, previewOf, proposedMap } from "./turns.ts";

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
  const read = useFirstBytes(file, (start, isWhole) => ({ preview: filePreviewOf(start, file.name, isWhole) }));
  const [name, setName] = useState(file.name.replace(ENDING, ""));
  const [map, setMap] = useState("");
  const [shape, setShape] = useState("");
  const [error, setError] = useState<ApiError>();
  const upload = async () => {
    const form = new FormData();
    for (const [field, value] of Object.entries({ name, map, shape })) if (value !== "") form.set(field, value);
    form.set("file", file); // the last: the server reads the others before it
    try {
      const { id, name: kept, detected } = await api<Dataset>("/v1/datasets", { method: "POST", body: form });
      toast(detected ? `Uploaded ${kept}: ${detected.summary}` : `Uploaded ${kept}`);
      void reload("/v1/datasets");
      onClose();
      navigate(`/datasets/${id}`);
    } catch (cause) {
      const failed = cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause));
      setError(failed);
      if (map === "") setMap(proposedMap(failed.message) ?? "");
    }
  };
  if (!read) return null; // a dialog that grows would move under the pointer
  const { preview } = read;
  return (
    <Dialog title="Upload a dataset" onClose={onClose} wide>
      <div class="stack">
        <TextField label="Name" value={name} onInput={setName} hint={`${file.name}, ${bytes(file.size)}`} />
        {preview?.shape === undefined && (
          <TextField
            label="Columns"
            value={map}
            onInput={setMap}
            mono
            hint="Only if they have other names: question=prompt,answer=completion. The server proposes a map if it needs one."
          />
        )}
        {error?.param === "shape" && (
          <SelectField label="Shape" value={shape} options={SHAPE_OPTIONS} onChange={setShape} />
        )}
        {preview ? (
          <PreviewRows preview={preview} />
        ) : (
          <p class="muted">The server reads this file, and says what it found after the upload.</p>
        )}
        {error && <ErrorBox error={error} />}
      </div>
      <footer>
        <Button onClick={onClose}>Cancel</Button>
        <Button kind="primary" onClick={upload} disabled={name.trim() === ""}>
          Upload
        </Button>
      </footer>
    </Dialog>
  );
}

const SHAPE_OPTIONS = [
  ["", "Choose one"],
  ...SHAPES.map((shape) => [shape, `${SHAPE_FACTS[shape].label} (${SHAPE_FACTS[shape].columns})`] as const),
] as const;

export function PreviewRows({ preview: { rows, format, shape, faults } }: { preview: Preview }) {
  const [chosen, setChosen] = useState<string | undefined>(undefined);
  const models = useResource<Page<Model>>(rows.length > 0 ? "/v1/models?registry=true&limit=100" : null);
  const usable = (models.data?.data ?? []).filter(({ status, type }) => status === "ready" && type === "model");
  const model = chosen ?? usable[0]?.name ?? TURNS;
  const rendered = useTemplate(model, rows);
  return (
    <section class="stack" aria-label="Preview">
      <p class="muted">
        {format === undefined
          ? "No row found: the file needs one JSON object on each line."
          : `${shape === undefined ? `Format ${format}` : foundText(shape)}. The first rows, as the model reads them in its chat template.`}
      </p>
      {format !== undefined && (
        <SelectField
          label="Show as"
          value={model}
          options={[[TURNS, "Turns"], ...usable.map(({ name }) => [name, `Text for ${name}`] as const)]}
          onChange={setChosen}
          error={rendered?.failed}
        />
      )}
      {faults.map(({ line, message }) => (
        <p key={line} class="bad" role="alert">
          Line {line}: {message}
        </p>
      ))}
      <div class="datasets-preview">
        {rows.map((row, i) => (
          <article key={i} aria-label={`Row ${i + 1}`}>
            <RowText row={row} rendered={model === TURNS ? undefined : rendered?.texts[i]} />
          </article>
        ))}
      </div>
    </section>
  );
}

const foundText = (shape: Shape) => `${SHAPE_FACTS[shape].label} → ${SHAPE_FACTS[shape].fields.join("/")}`;

/** No model has an empty name. */
const TURNS = "";

type Text = RenderedTemplate["conversations"][number];

function RowText({ row, rendered }: { row: Preview["rows"][number]; rendered: Text | undefined }) {
  if (!rendered) return <Turns row={row} />;
  if (rendered.text === null) return <p class="bad">{rendered.error}</p>;
  return (
    <div class="datasets-turn">
      <small>{plural(rendered.tokens ?? 0, "token")}</small>
      <pre class="text">{rendered.text}</pre>
    </div>
  );
}

type Rendering = { texts: readonly Text[]; failed: string | undefined };

/** Undefined until the server has answered: the turns are shown until then. */
function useTemplate(model: string, rows: Preview["rows"]): Rendering | undefined {
  const [rendered, setRendered] = useState<Rendering>();
  useEffect(() => {
    setRendered(undefined);
    if (model === TURNS || rows.length === 0) return;
    const stop = new AbortController();
    const body = { conversations: rows.map(conversationOf) };
    api<RenderedTemplate>(`/v1/models/${encodeURIComponent(model)}/template`, {
      method: "POST",
      body,
      signal: stop.signal,
    }).then(
      ({ conversations }) => setRendered({ texts: conversations, failed: undefined }),
      (cause: unknown) => !stop.signal.aborted && setRendered({ texts: [], failed: errorText(cause) }),
    );
    return () => stop.abort();
  }, [model, rows]);
  return rendered;
}

type DropProps = { label: string; hint: string; accept: string; onFile: (file: File) => void };

export function Drop({ label, hint, accept, onFile }: DropProps) {
  const input = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const take = (files: FileList | null | undefined) => {
    const file = files?.[0];
    if (file) onFile(file);
  };
  const stop = (event: DragEvent, isOver: boolean) => {
    event.preventDefault();
    setOver(isOver);
  };
  return (
    <>
      <button
        type="button"
        class={`datasets-drop ${over ? "over" : ""}`}
        onClick={() => input.current?.click()}
        onDragOver={(event) => stop(event, true)}
        onDragLeave={(event) => stop(event, false)}
        onDrop={(event) => {
          stop(event, false);
          take(event.dataTransfer?.files);
        }}
      >
        <b>{label}</b>
        <span>{hint}</span>
      </button>
      <input
        ref={input}
        type="file"
        class="hidden"
        tabIndex={-1}
        aria-hidden="true"
        accept={accept}
        onChange={(event) => {
          take(event.currentTarget.files);
          event.currentTarget.value = ""; // the same file may be chosen again
        }}
      />
    </>
  );
}

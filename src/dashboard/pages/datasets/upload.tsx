/** A file is dropped or chosen: its first rows as the model will read them, then the upload. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Dataset } from "../../../resources/datasets/schema.ts";
import type { Model } from "../../../resources/models/schema.ts";
import type { RenderedTemplate } from "../../../resources/models/template.ts";
import { ApiError, api, messageOf } from "../../data/api.ts";
import { bytes, plural } from "../../data/format.ts";
import { type Page, reload, useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { ErrorBox } from "../../kit/page.tsx";
import { navigate } from "../../shell/router.ts";
import { toast } from "../../shell/toasts.tsx";
import { Turns } from "./row_view.tsx";
import { conversationOf, type Preview, previewOf } from "./turns.ts";

const PREVIEW_BYTES = 256 * 1024;

export const usePreview = (file: Blob | undefined): Preview | undefined => {
  const [preview, setPreview] = useState<Preview>();
  useEffect(() => {
    if (!file) return;
    let isCurrent = true;
    void file
      .slice(0, PREVIEW_BYTES)
      .text()
      .then((text) => isCurrent && setPreview(previewOf(text, file.size <= PREVIEW_BYTES)));
    return () => {
      isCurrent = false;
    };
  }, [file]);
  return preview;
};

export function Upload({ file, onClose }: { file: File; onClose: () => void }) {
  const preview = usePreview(file);
  const [name, setName] = useState(file.name.replace(/\.(jsonl|ndjson|json)$/i, ""));
  const [error, setError] = useState<ApiError>();
  const upload = async () => {
    const form = new FormData();
    form.set("name", name);
    form.set("file", file);
    try {
      const { id, name: kept } = await api<Dataset>("/v1/datasets", { method: "POST", body: form });
      toast(`Uploaded ${kept}`);
      void reload("/v1/datasets");
      onClose();
      navigate(`/datasets/${id}`);
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, null, messageOf(cause)));
    }
  };
  if (!preview) return null; // a dialog that grows would move under the pointer
  return (
    <Dialog title="Upload a dataset" onClose={onClose} wide>
      <div class="stack">
        <TextField label="Name" value={name} onInput={setName} hint={`${file.name}, ${bytes(file.size)}`} />
        <PreviewRows preview={preview} />
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

export function PreviewRows({ preview: { rows, format, faults } }: { preview: Preview }) {
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
          : `Format ${format}. The first rows, as the model reads them in its chat template.`}
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
      ...{ method: "POST", body, signal: stop.signal },
    }).then(
      ({ conversations }) => setRendered({ texts: conversations, failed: undefined }),
      (cause: unknown) => !stop.signal.aborted && setRendered({ texts: [], failed: messageOf(cause) }),
    );
    return () => stop.abort();
  }, [model, rows]);
  return rendered;
}

type DropProps = { label: string; hint: string; onFile: (file: File) => void };

export function Drop({ label, hint, onFile }: DropProps) {
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
        accept=".jsonl,.ndjson,.json,application/x-ndjson"
        onChange={(event) => {
          take(event.currentTarget.files);
          event.currentTarget.value = ""; // the same file may be chosen again
        }}
      />
    </>
  );
}

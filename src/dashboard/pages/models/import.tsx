/** Import of a file or a folder, and pulls from the hub. */
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../../data/api.ts";
import { bytes, percent, plural } from "../../data/format.ts";
import { reload } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { FormDialog } from "../../kit/dialog.tsx";
import { TextField } from "../../kit/field.tsx";
import { Progress } from "../../kit/progress.tsx";
import { navigate } from "../../shell/router.ts";
import { toast } from "../../shell/toasts.tsx";
import type { Model } from "./types.ts";
import { type Chosen, chosenOf, filesOf, importModel, type Sending } from "./upload.ts";

/** A place for files, which also opens the chooser. */
export function DropModel({ onChoose }: { onChoose: (chosen: Chosen) => void }) {
  const [over, setOver] = useState(false);
  const files = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);
  useEffect(() => folder.current?.setAttribute("webkitdirectory", ""), []);
  const stop = (event: DragEvent, isOver: boolean) => {
    event.preventDefault();
    setOver(isOver);
  };
  const take = (input: HTMLInputElement) => {
    const all = [...(input.files ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
    input.value = ""; // the same file may be chosen again
    if (all.length > 0) onChoose(chosenOf(all));
  };
  const input = (ref: typeof files) => (
    <input
      ref={ref}
      type="file"
      multiple
      class="hidden"
      tabIndex={-1}
      aria-hidden="true"
      onChange={(event) => take(event.currentTarget)}
    />
  );
  return (
    <section
      class={`models-drop ${over ? "over" : ""}`}
      aria-label="Import"
      onDragOver={(event) => stop(event, true)}
      onDragLeave={(event) => stop(event, false)}
      onDrop={(event) => {
        stop(event, false);
        if (event.dataTransfer) void filesOf(event.dataTransfer).then((all) => onChoose(chosenOf(all)));
      }}
    >
      <span>
        <b>Drop a GGUF file or a model folder here</b>
        <small>A Hugging Face folder with safetensors becomes one GGUF file.</small>
      </span>
      <Button onClick={() => files.current?.click()}>Choose files</Button>
      <Button onClick={() => folder.current?.click()}>Choose a folder</Button>
      {input(files)}
      {input(folder)}
    </section>
  );
}

export function ImportModel({ chosen, onClose }: { chosen: Chosen; onClose: () => void }) {
  const [name, setName] = useState(chosen.name);
  const [base, setBase] = useState("");
  const [sending, setSending] = useState<Sending>();
  const stop = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const size = chosen.files.reduce((sum, { file }) => sum + file.size, 0);
  const start = async () => {
    stop.current = new AbortController();
    setSending({ sent: 0, total: size, phase: "sending" });
    try {
      const { signal } = stop.current;
      const model = await importModel({ name: name.trim(), files: chosen.files }, base.trim(), {
        signal,
        onProgress: setSending,
      });
      toast(`Imported ${model.name}`);
      void reload("/v1/models");
      navigate(`/models/${model.id}`);
    } finally {
      setSending(undefined);
    }
  };
  return (
    <FormDialog
      title="Import a model"
      verb="Import"
      isReady={name.trim() !== "" && chosen.fault === undefined}
      onSubmit={start}
      onClose={onClose}
    >
      <TextField
        label="Name"
        value={name}
        onInput={setName}
        hint={`${plural(chosen.files.length, "file")}, ${bytes(size)}`}
      />
      <TextField
        label="Base model"
        value={base}
        onInput={setBase}
        hint="For an adapter: the model that it changes. Empty: the only model here that fits."
      />
      {chosen.fault !== undefined && (
        <p class="bad" role="alert">
          {chosen.fault}
        </p>
      )}
      {sending && (
        <Progress label="Import" done={sending.sent} total={sending.total}>
          {sending.phase === "checking"
            ? "Checking the files"
            : `${percent(sending.sent / (sending.total || 1))} of ${bytes(sending.total)}`}
        </Progress>
      )}
    </FormDialog>
  );
}

export function PullModel({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const pull = async () => {
    const model = await api<Model>("/v1/models/pull", { method: "POST", body: { name: name.trim() } });
    void reload("/v1/models");
    navigate(`/models/${model.id}`);
  };
  return (
    <FormDialog
      title="Pull a model from the hub"
      verb="Pull"
      isReady={name.trim() !== ""}
      onSubmit={pull}
      onClose={onClose}
    >
      <TextField
        label="Name on the hub"
        value={name}
        onInput={setName}
        placeholder="Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0"
        hint="owner/repo, owner/repo:QUANT or owner/repo:file.gguf"
      />
    </FormDialog>
  );
}

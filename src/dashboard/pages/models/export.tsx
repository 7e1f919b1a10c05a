/** A model as a file to take home: its own GGUF file, or what a run makes of its checkpoint. */
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../../data/api.ts";
import { bytes } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Command } from "../../kit/copy.tsx";
import { FormDialog } from "../../kit/dialog.tsx";
import { SelectField } from "../../kit/field.tsx";
import { jobPath, type TrainingJob } from "../runs/types.ts";
import { type Model, type ModelDownload, type ModelFile, modelPath } from "./types.ts";

const PAUSE_MS = 1_000;
const OWN = "own";

type Format = readonly [value: string, shown: string];

/** `variant quantization` of the job's export. */
const MERGED: readonly Format[] = [
  ["huggingface BF16", "Safetensors for transformers, merged, BF16"],
  ["gguf F16", "GGUF, merged, F16"],
  ["gguf Q8_0", "GGUF, merged, Q8_0"],
  ["gguf Q6_K", "GGUF, merged, Q6_K"],
  ["gguf Q5_K_M", "GGUF, merged, Q5_K_M"],
  ["gguf Q4_K_M", "GGUF, merged, Q4_K_M"],
];

export function ExportModel({ model, onClose }: { model: Model; onClose: () => void }) {
  const jobId = may("training") ? model.job_id : null;
  const job = useResource<TrainingJob>(jobId === null ? null : jobPath(jobId));
  const [format, setFormat] = useState(OWN);
  const [doing, setDoing] = useState<string>();
  const isOver = useRef(false);
  useEffect(
    () => () => {
      isOver.current = true;
    },
    [],
  );
  const own: Format = [OWN, `GGUF, this file, ${model.quantization ?? ""} ${bytes(model.size_bytes)}`];
  const peft: Format = ["peft ", "PEFT: the adapter as safetensors"];
  const formats = [own, ...(job.data ? [...(job.data.lora ? [peft] : []), ...MERGED] : [])];
  const fetchIt = async () => {
    try {
      const file = format === OWN ? await api<ModelFile>(modelPath(model.id, "/download")) : await made();
      if (file?.url) save(file.url, file.file_name ?? "model");
    } finally {
      setDoing(undefined);
    }
  };
  /** Undefined: the dialog was closed. The server goes on, and the next export finds the file. */
  const made = async (): Promise<ModelDownload | undefined> => {
    const [variant = "", quantization = ""] = format.split(" ");
    const query = new URLSearchParams({ variant, checkpoint: model.checkpoint_id ?? "latest" });
    if (quantization !== "") query.set("quantization", quantization);
    for (;;) {
      const file = await api<ModelDownload>(`${jobPath(model.job_id ?? "")}/model?${query}`);
      if (file.status === "ready") return file;
      if (isOver.current) return undefined;
      setDoing("The file is being made. You can close this and come back.");
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  };
  return (
    <FormDialog title={`Export ${model.name}`} verb="Export" onSubmit={fetchIt} onClose={onClose}>
      <SelectField label="Format" value={format} options={formats} onChange={setFormat} />
      {model.job_id === null && model.type === "model" && (
        <>
          <p class="muted">As a Hugging Face folder with safetensors, at the machine of the server:</p>
          <Command text={`verk models export ${model.name}`} />
        </>
      )}
      {doing !== undefined && (
        <p class="muted" role="status">
          {doing}
        </p>
      )}
    </FormDialog>
  );
}

function save(url: string, name: string) {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}

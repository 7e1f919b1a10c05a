/** Exports a model as a Hugging Face folder in a confined child process. */
import { availableParallelism } from "node:os";
import type { Supervisor } from "../../../../platform/workers/supervisor.ts";
import { type ExportFolderTask, FromTrainer, type ToTrainer } from "../../../../workers/protocol_trainer.ts";
import type { OnProgress } from "./inspector.ts";

export type FolderExport = {
  dataDir: string;
  /** The GGUF file. */
  path: string;
  quantization: string | null;
  /** An empty folder. */
  out: string;
  onProgress: OnProgress;
  signal: AbortSignal;
};

/** Hugging Face folders hold plain weights: a quantized model is written as BF16. */
export const weightsFor = (quantization: string | null): ExportFolderTask["weights"] =>
  quantization === "F32" || quantization === "F16" ? quantization : "BF16";

/** Rejects with one sentence for people. */
export async function exportFolder(supervisor: Supervisor, wanted: FolderExport): Promise<void> {
  const { dataDir: data_dir, path: model_path, quantization, out, onProgress, signal } = wanted;
  const over = Promise.withResolvers<void>();
  const worker = supervisor.spawn<FromTrainer, ToTrainer>({
    kind: "trainer",
    incoming: FromTrainer,
    grants: { reads: [model_path], writes: [out] },
    extraEnv: { CUDA_VISIBLE_DEVICES: "" },
    onMessage(message) {
      if (message.type === "loading") onProgress(message.progress);
      if (message.type === "done") over.resolve();
    },
    onExit: ({ message }) => over.reject(new Error(message)),
  });
  const stop = () => over.reject(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  const threads = Math.max(1, availableParallelism() - 1);
  worker.send({
    type: "export_folder",
    data_dir,
    threads,
    gpus: [],
    model_path,
    weights: weightsFor(quantization),
    out,
  });
  try {
    await over.promise;
  } finally {
    signal.removeEventListener("abort", stop);
    await worker.stop("the export is over");
  }
}

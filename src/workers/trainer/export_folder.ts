/** Writes a model of the registry as a Hugging Face folder, without a job. */
import { join } from "node:path";
import { UNCOUNTED, writeStreamAtomic } from "../../platform/files.ts";
import { WorkerError } from "../protocol.ts";
import type { ExportFolderTask, FromTrainer } from "../protocol_trainer.ts";
import { openMerger } from "./learned.ts";
import { openHfFolder } from "./results/hf_folder.ts";
import { OTHER_VARIANT } from "./results/hf_weights.ts";

type Report = { send: (message: FromTrainer) => void; onTurn: () => void };

const PROGRESS_STEP = 0.01;

export async function exportFolder(task: ExportFolderTask, { send, onTurn }: Report): Promise<void> {
  const backend = openMerger(task);
  try {
    const learned = { weights: () => undefined }; // nothing was trained
    const folder = await openHfFolder(backend, { base: task.model_path, learned, type: task.weights });
    try {
      const total = folder.entries.reduce((sum, { size }) => sum + size, 0);
      let [done, shown] = [0, 0];
      const onChunk = ({ byteLength }: Uint8Array) => {
        onTurn();
        done += byteLength;
        if (done / total - shown < PROGRESS_STEP) return;
        shown = done / total;
        send({ type: "loading", stage: "writing", progress: Math.min(shown, 1) });
      };
      for (const { name, content } of folder.entries)
        await writeStreamAtomic(join(task.out, name), content(), { onChunk, meter: UNCOUNTED });
    } finally {
      await folder.close();
    }
  } catch (error) {
    if (!(error instanceof WorkerError)) throw error;
    throw new WorkerError(error.kind, error.message.replace(OTHER_VARIANT, ""));
  } finally {
    backend.close();
  }
}

/**
 * Converts a Hugging Face folder to a GGUF file in a confined child process. The new file lies in a folder of its own
 * below models/.converting, which is removed at the end. The folder of a killed process is removed by the next
 * conversion or scan.
 */
import { join } from "node:path";
import { makeLockedFolder, removeAbandonedFolders } from "../../../platform/locked_folder.ts";
import type { Supervisor } from "../../../platform/workers/supervisor.ts";
import type { ModelShape } from "../../../workers/protocol.ts";
import { FromInspector, type ToInspector } from "../../../workers/protocol_inspector.ts";
import type { Checkpoint } from "./checkpoint.ts";
import type { OnProgress, Refusal } from "./inspector.ts";

export const QUANTIZATIONS = ["Q8_0"] as const;
export type Quantization = (typeof QUANTIZATIONS)[number];

const DIR = join("models", ".converting");
const FILE = "model.gguf";

type Deps = { supervisor: Supervisor; dataDir: string };
export type Conversion = {
  checkpoint: Pick<Checkpoint, "dir" | "files">;
  /** Name of the model inside the file. */
  name: string;
  quantize?: Quantization | undefined;
  onProgress?: OnProgress | undefined;
  signal?: AbortSignal | undefined;
};
export type Converted = { ok: true; path: string; shape: ModelShape; sizeBytes: number; sha256: string };

/** Calls `use` with the new file, which it may move. */
export async function converted<T>(
  { supervisor, dataDir }: Deps,
  wanted: Conversion,
  use: (result: Converted | Refusal) => Promise<T>,
): Promise<T> {
  await removeAbandoned(dataDir);
  const { dir, remove } = await makeLockedFolder(join(dataDir, DIR));
  try {
    return await use(await run(supervisor, join(dir, FILE), dir, wanted));
  } finally {
    await remove();
  }
}

function run(supervisor: Supervisor, into: string, dir: string, wanted: Conversion): Promise<Converted | Refusal> {
  const { checkpoint, name, quantize = null, onProgress, signal } = wanted;
  const { files, dir: path } = checkpoint;
  const over = Promise.withResolvers<Converted | Refusal>();
  const worker = supervisor.spawn<FromInspector, ToInspector>({
    kind: "inspector",
    incoming: FromInspector,
    grants: { reads: Object.values(files), writes: [dir] },
    onMessage(message) {
      if (message.type === "converting") onProgress?.(message.progress);
      if (message.type === "refused") over.resolve({ ok: false, error: message.error, broken: false });
      if (message.type === "converted") {
        const { shape, size_bytes: sizeBytes, sha256 } = message;
        over.resolve({ ok: true, path: into, shape, sizeBytes, sha256 });
      }
    },
    onExit: ({ message }) => over.resolve({ ok: false, error: `The conversion was cut off: ${message}`, broken: true }),
  });
  const stop = () => void worker.stop("the conversion was cancelled");
  signal?.addEventListener("abort", stop, { once: true });
  worker.send({ type: "convert", path, name, files, into, quantize });
  return over.promise.finally(() => {
    signal?.removeEventListener("abort", stop);
    void worker.stop("no work");
  });
}

/** Removes folders of processes that were killed. */
export const removeAbandoned = (dataDir: string) => removeAbandonedFolders(join(dataDir, DIR));

/**
 * Converts a Hugging Face folder, or joins a split GGUF file, in a confined child process. The new file lies in a folder
 * below models/.converting, which is removed at the end. The folder of a killed process is removed by the next
 * conversion or scan.
 */
import { join } from "node:path";
import type { Quantization } from "../../../../lib/checkpoints/mix.ts";
import type { Meter } from "../../../../platform/files.ts";
import { makeLockedFolder, removeAbandonedFolders } from "../../../../platform/locked_folder.ts";
import { fileSize, watchGrowth } from "../../../../platform/storage/growth.ts";
import type { Supervisor } from "../../../../platform/workers/supervisor.ts";
import type { Grants } from "../../../../platform/workers/types.ts";
import type { ModelShape } from "../../../../workers/protocol.ts";
import { FromInspector, type ToInspector } from "../../../../workers/protocol_inspector.ts";
import type { Checkpoint } from "./checkpoint.ts";
import type { OnProgress, Refusal } from "./inspector.ts";

export const DIR = join("models", ".converting");
const FILE = "model.gguf";

type Deps = { supervisor: Supervisor; dataDir: string };
export type Conversion = {
  checkpoint: Pick<Checkpoint, "dir" | "files">;
  /** Name of the model inside the file. */
  name: string;
  quantize?: Quantization | undefined;
  onProgress?: OnProgress | undefined;
  signal?: AbortSignal | undefined;
  /** Counts the new file while it is written. */
  meter: Meter;
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
    return await use(await run({ supervisor, dataDir }, dir, wanted));
  } finally {
    await remove();
  }
}

/** Looks at a Hugging Face folder before its weights are here. Undefined: nothing speaks against a conversion. */
export function refusalOf(
  { supervisor }: Deps,
  { dir: path, files }: Conversion["checkpoint"],
  signal: AbortSignal,
): Promise<Refusal | undefined> {
  const grants = { reads: Object.values(files) };
  return ask<undefined>(supervisor, { grants, signal }, { type: "check", path, files }, (message) =>
    message.type === "checked" ? { done: undefined } : undefined,
  );
}

async function run({ supervisor, dataDir }: Deps, dir: string, wanted: Conversion): Promise<Converted | Refusal> {
  const into = join(dir, FILE);
  const { checkpoint, name, quantize = null, onProgress, meter } = wanted;
  const full = new AbortController();
  using _growth = watchGrowth(
    meter,
    () => fileSize(into),
    (error) => full.abort(error),
  );
  const signal = AbortSignal.any([full.signal, ...(wanted.signal ? [wanted.signal] : [])]);
  const { files, dir: path } = checkpoint;
  const grants = { reads: Object.values(files), writes: [dir] };
  const question = { type: "convert", path, name, files, into, quantize, data_dir: dataDir } as const;
  const result = await ask<Converted>(supervisor, { grants, signal }, question, (message) => {
    if (message.type === "converting") onProgress?.(message.progress);
    if (message.type !== "converted") return undefined;
    const { shape, size_bytes: sizeBytes, sha256 } = message;
    return { done: { ok: true, path: into, shape, sizeBytes, sha256 } };
  });
  full.signal.throwIfAborted();
  return result;
}

/** One question to a process of its own. `read` returns the answer, or undefined for another message. */
export function ask<T>(
  supervisor: Supervisor,
  { grants, signal }: { grants: Grants; signal: AbortSignal | undefined },
  question: ToInspector,
  read: (message: FromInspector) => { done: T } | undefined,
): Promise<T | Refusal> {
  const over = Promise.withResolvers<T | Refusal>();
  const worker = supervisor.spawn<FromInspector, ToInspector>({
    kind: "converter",
    incoming: FromInspector,
    grants,
    onMessage(message) {
      const answer = read(message);
      if (answer) over.resolve(answer.done);
      if (message.type === "refused") over.resolve({ ok: false, error: message.error, broken: false });
    },
    onExit: ({ message }) => over.resolve({ ok: false, error: `The conversion was cut off: ${message}`, broken: true }),
  });
  const stop = () => void worker.stop("the conversion was cancelled");
  signal?.addEventListener("abort", stop, { once: true });
  worker.send(question);
  return over.promise.finally(() => {
    signal?.removeEventListener("abort", stop);
    void worker.stop("no work");
  });
}

/** Removes folders of processes that were killed. */
export const removeAbandoned = (dataDir: string) => removeAbandonedFolders(join(dataDir, DIR));

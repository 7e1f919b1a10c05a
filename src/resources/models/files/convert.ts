/**
 * Converts a Hugging Face folder to a GGUF file in a confined child process. The new file lies in a folder of its own
 * below models/.converting, which is removed at the end. A locked file beside the folder shows that its process lives:
 * the folder of a killed process is removed by the next conversion or scan.
 */
import { randomBytes } from "node:crypto";
import { closeSync, fstatSync, openSync, unlinkSync } from "node:fs";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { tryLock } from "../../../native/libc.ts";
import type { Supervisor } from "../../../platform/workers/supervisor.ts";
import { FromInspector, type ModelShape, type ToInspector } from "../../../workers/protocol.ts";
import type { Checkpoint } from "./checkpoint.ts";
import type { OnProgress, Refusal } from "./inspector.ts";

export const QUANTIZATIONS = ["Q8_0"] as const;
export type Quantization = (typeof QUANTIZATIONS)[number];

const DIR = join("models", ".converting");
const FILE = "model.gguf";

type Deps = { supervisor: Supervisor; dataDir: string };
export type Wanted = {
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
  wanted: Wanted,
  use: (result: Converted | Refusal) => Promise<T>,
): Promise<T> {
  await removeAbandoned(dataDir);
  const { dir, remove } = await makeFolder(join(dataDir, DIR));
  try {
    return await use(await run(supervisor, join(dir, FILE), dir, wanted));
  } finally {
    await remove();
  }
}

function run(supervisor: Supervisor, into: string, dir: string, wanted: Wanted): Promise<Converted | Refusal> {
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

async function makeFolder(root: string): Promise<{ dir: string; remove: () => Promise<void> }> {
  await mkdir(root, { recursive: true, mode: 0o700 });
  for (let attempt = 0; ; attempt++) {
    const dir = join(root, randomBytes(8).toString("hex"));
    const lock = openSync(`${dir}.lock`, "wx", 0o600);
    const isOurs = tryLock(lock) || attempt > 4; // some file systems have no locks
    if (isOurs && fstatSync(lock).nlink > 0) {
      await mkdir(dir, { mode: 0o700 });
      const remove = async () => {
        await rm(dir, { recursive: true, force: true });
        unlinkSync(`${dir}.lock`);
        closeSync(lock);
      };
      return { dir, remove };
    }
    closeSync(lock); // a sweep came between: it removes the file
  }
}

/** Removes folders of processes that were killed. */
export async function removeAbandoned(dataDir: string) {
  const root = join(dataDir, DIR);
  for (const name of await readdir(root).catch(() => [])) {
    if (!name.endsWith(".lock")) continue;
    const path = join(root, name);
    let lock: number;
    try {
      lock = openSync(path, "r+");
    } catch {
      continue; // it was removed meanwhile
    }
    if (tryLock(lock)) {
      await rm(path.slice(0, -".lock".length), { recursive: true, force: true });
      await rm(path, { force: true });
    }
    closeSync(lock);
  }
}

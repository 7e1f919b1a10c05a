/** Writes a merged model in one of libllama's mixed quantizations. It uses a temporary file in half precision. */
import { open, stat, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import type { Backend } from "../../../native/ggml/ggml.ts";
import { type Quantization, quantizeModel } from "../../../native/llama/quantize.ts";
import { asStorageError, renameDurably, sha256File, tempPath, type Written } from "../../../platform/files.ts";
import { type MergedType, type MergeOptions, writeMergedGguf } from "./merged_gguf.ts";

export type QuantizedOptions = Omit<MergeOptions, "type"> & {
  /** Type of the temporary file. F16 is more precise; BF16 serves weights beyond F16's range. */
  through: Exclude<MergedType, "Q8_0">;
  quantization: Quantization;
  threads: number;
  /** Directory of the native libraries, and the set to load. */
  dataDir: string;
  cuda: boolean;
};

/** Blocks the thread while libllama works. */
export async function writeQuantizedGguf(backend: Backend, options: QuantizedOptions): Promise<Written> {
  const { path, quantization, threads, dataDir, cuda, through } = options;
  const dir = dirname(path);
  const [half, temp] = [tempPath(dir), tempPath(dir)];
  try {
    await writeMergedGguf(backend, { ...options, path: half, type: through });
    quantizeModel(dataDir, { cuda }, { from: half, to: temp, quantization, threads });
    await settle(temp);
    const written = { bytes: (await stat(temp)).size, sha256: await sha256File(temp) };
    await renameDurably(temp, path);
    return written;
  } catch (error) {
    throw asStorageError(path, "write", error);
  } finally {
    for (const left of [half, temp]) await unlink(left).catch(() => {}); // each was never made, or already renamed
  }
}

async function settle(path: string) {
  const file = await open(path, "r");
  try {
    await file.chmod(0o600); // like every other file: libllama uses only the umask
    await file.sync();
  } finally {
    await file.close();
  }
}

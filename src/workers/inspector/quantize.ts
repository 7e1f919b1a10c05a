/** Quantizes a whole GGUF file with the library's own quantizer, and describes the new file. */
import { open, stat } from "node:fs/promises";
import { CheckpointError } from "../../lib/checkpoints/families.ts";
import { describeServed } from "../../lib/gguf/describe.ts";
import { readHeader } from "../../lib/gguf/read.ts";
import { HOUR_MS } from "../../lib/units.ts";
import { quantizeModel } from "../../native/llama/quantize.ts";
import { readInto, sha256File } from "../../platform/files.ts";
import type { ModelShape } from "../protocol.ts";
import type { ToInspector } from "../protocol_inspector.ts";

type Task = Extract<ToInspector, { type: "quantize" }>;

/** The library says nothing while it works. No file takes longer. */
export const QUIET_MS = 24 * HOUR_MS;

/** Blocks the thread while the library works. */
export async function quantize(task: Task): Promise<{ shape: ModelShape; size_bytes: number; sha256: string }> {
  const { path: from, into: to, quantization, threads, data_dir } = task;
  try {
    quantizeModel(data_dir, { cuda: false }, { from, to, quantization, threads });
  } catch (error) {
    throw new CheckpointError(`The model cannot be quantized: ${(error as Error).message}`, { cause: error });
  }
  const { size } = await stat(to);
  const file = await open(to, "r");
  try {
    await file.chmod(0o600); // like every other file: the library uses only the umask
    await file.sync();
    const shape = describeServed(await readHeader((bytes, at) => readInto(file, bytes, at), size));
    return { shape, size_bytes: size, sha256: await sha256File(to) };
  } finally {
    await file.close();
  }
}

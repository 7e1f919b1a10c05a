/** Opens the kernels of decoding that this build has. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { OutOfMemory } from "../../ggml/out_of_memory.ts";
import { llamaLibraries } from "../../llama/libraries.ts";
import { cudaDriver } from "../driver.ts";
import { openCudaDevice } from "./cuda_device.ts";
import { DECODE_FILE, type Device } from "./kernels.ts";

const OLDEST_MAJOR = 8; // the first with BF16 tensor cores

/** Returns null if this build has no kernels of decoding, or if the GPU cannot run them. */
export function openDecodeDevice(dataDir: string, index: number): Device | null {
  const path = join(llamaLibraries(dataDir, { cuda: true }).dir, DECODE_FILE);
  if (!existsSync(path)) return null;
  try {
    return cudaDriver(index).major < OLDEST_MAJOR ? null : openCudaDevice(readFileSync(path), { index });
  } catch (error) {
    if (error instanceof OutOfMemory) throw error;
    const why = error instanceof Error ? error.message : String(error);
    process.stderr.write(`decoding continues without the CUDA kernels of Verk, which is slower: ${why}\n`);
    return null;
  }
}

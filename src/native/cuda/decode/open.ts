/** Opens the kernels of decoding that this build has. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { errorText } from "../../../lib/error_text.ts";
import { OutOfMemory } from "../../ggml/out_of_memory.ts";
import { llamaLibraries } from "../../llama/libraries.ts";
import { cudaDriver } from "../driver.ts";
import { KERNELS_FILE } from "../kernels.ts";
import { openCudaDevice } from "./cuda_device.ts";
import { DECODE_FILE, type Device } from "./kernels.ts";

const OLDEST_MAJOR = 8; // the first with BF16 tensor cores

const trainerKernels = (dir: string) => (existsSync(join(dir, KERNELS_FILE)) ? join(dir, KERNELS_FILE) : null);

/** Returns the GPU, or why the kernels of decoding cannot use it. A fault of the driver is also one line on stderr. */
export function openDecodeDevice(dataDir: string, gpus: readonly number[]): Device | string {
  const [index] = gpus;
  if (index === undefined) return "there is no GPU";
  if (gpus.length > 1) return "the model is spread over several GPUs";
  const { dir } = llamaLibraries(dataDir, { cuda: true });
  const path = join(dir, DECODE_FILE);
  if (!existsSync(path)) return "this build has no kernels for decoding";
  try {
    if (cudaDriver(index).major < OLDEST_MAJOR) return "the GPU has a compute capability below 8.0";
    return openCudaDevice(readFileSync(path), { index, trainer: trainerKernels(dir) });
  } catch (error) {
    if (error instanceof OutOfMemory) throw error;
    const why = errorText(error);
    process.stderr.write(`decoding continues without the CUDA kernels of Verk, which is slower: ${why}\n`);
    return why;
  }
}

/** Decides what decodes a model, and opens our kernels for it. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Header } from "../../../../lib/gguf/parse.ts";
import { openCudaDevice } from "../../../../native/cuda/decode/cuda_device.ts";
import { DECODE_FILE, type Device, PAGE } from "../../../../native/cuda/decode/kernels.ts";
import { cudaDriver } from "../../../../native/cuda/driver.ts";
import { OutOfMemory } from "../../../../native/ggml/out_of_memory.ts";
import { llamaLibraries } from "../../../../native/llama/libraries.ts";
import { openDecoder } from "../../../decoder/decoder.ts";
import { headerOf } from "../../../decoder/header.ts";
import { loadModel, reasonAgainst } from "../../../decoder/model.ts";
import type { Decoder } from "../../../decoder/types.ts";
import type { OpenMessage } from "../thread/messages.ts";

export type OpenedKernels = { decoder: Decoder; header: Header; close: () => void };

const OLDEST_MAJOR = 8; // the first with BF16 tensor cores
const PROMPT_TOKENS = 2048; // of one pass; more need larger buffers

/** Returns our kernels for this model, or the reason why the library decodes it. `own` makes the reason an error. */
export function openKernels(open: OpenMessage): OpenedKernels | string {
  const opened = tryKernels(open);
  if (typeof opened === "string" && open.decoder === "own")
    throw new Error(`serving.decoder is "own", but the library must decode this model: ${opened}`);
  return opened;
}

function tryKernels(open: OpenMessage): OpenedKernels | string {
  if (open.decoder === "library") return 'serving.decoder is "library"';
  if (open.model !== null || open.unified || open.steady) return "its weights or its cache are shared";
  const device = source.open(open);
  if (typeof device === "string") return device;
  try {
    const header = headerOf(open.modelPath);
    const reason = reasonAgainst(header);
    if (reason === null) return load(device, open, header);
    device.close();
    return `Verk's kernels do not decode ${reason}`;
  } catch (error) {
    device.close();
    if (error instanceof OutOfMemory) throw error;
    return error instanceof Error ? error.message : String(error);
  }
}

function load(device: Device, { modelPath, contextLength, parallel }: OpenMessage, header: Header): OpenedKernels {
  const model = loadModel(device, { path: modelPath, header }, contextLength);
  try {
    const pages = parallel * Math.ceil(contextLength / PAGE);
    const decoder = openDecoder(device, model, {
      ...{ slots: parallel, contextLength, pages, promptTokens: PROMPT_TOKENS, ahead: true },
    });
    const close = () => {
      decoder.close();
      model.free();
      device.close();
    };
    return { decoder, header, close };
  } catch (error) {
    model.free();
    throw error;
  }
}

/** Returns the GPU, or why our kernels cannot use it. */
function openGpu({ gpus, dataDir }: OpenMessage): Device | string {
  const [index] = gpus;
  if (index === undefined) return "there is no GPU";
  if (gpus.length > 1) return "the model is spread over several GPUs";
  const path = join(llamaLibraries(dataDir, { cuda: true }).dir, DECODE_FILE);
  if (!existsSync(path)) return "this build has no kernels for decoding";
  try {
    if (cudaDriver(index).major < OLDEST_MAJOR) return "the GPU has a compute capability below 8.0";
    return openCudaDevice(readFileSync(path), { index });
  } catch (error) {
    if (error instanceof OutOfMemory) throw error;
    return error instanceof Error ? error.message : String(error);
  }
}

/** Tests replace the GPU by an emulation. */
export const source: { open: (open: OpenMessage) => Device | string } = { open: openGpu };

/** Opens models, contexts and devices. */
import { FFIType, JSCallback, type Pointer, ptr } from "bun:ffi";
import { closeSync, openSync } from "node:fs";
import { basename } from "node:path";
import { readIntoSync } from "../../platform/files.ts";
import { cstr, must, type Ptr, text } from "../ffi.ts";
import { type ContextParams, contextParams, modelParams } from "./params.ts";
import type { Llama } from "./symbols.ts";

export type Device = { device: Ptr; name: string; description: string };

const GPU_TYPE = 1;

/** Lists the GPUs in the order of the driver, which is the order of `nvidia-smi`. */
export function listGpus(llama: Llama): Device[] {
  const all = Array.from({ length: Number(llama.ggml_backend_dev_count()) }, (_, i) => llama.ggml_backend_dev_get(i));
  return all.flatMap((device) => {
    if (device === null || llama.ggml_backend_dev_type(device) !== GPU_TYPE) return [];
    const name = text(llama.ggml_backend_dev_name(device));
    return [{ device: must(device, name), name, description: text(llama.ggml_backend_dev_description(device)) }];
  });
}

export function freeBytes(llama: Llama, device: Ptr): number {
  const sizes = new BigUint64Array(2); // free, total
  const at = ptr(sizes);
  llama.ggml_backend_dev_memory(device, at, (at + 8) as Pointer);
  return Number(sizes[0]);
}

const UNQUANTIZED = new Set([0, 1, 32]); // general.file_type: F32, F16, BF16
const HEAD_BYTES = 64 * 1024;

/**
 * Rearranging makes quantized weights up to four times as fast on a CPU. Other weights gain 10 % in decoding and a
 * third in reading prompts. It costs half a millisecond of load time per megabyte. The type is read from the first keys
 * of the file. Both answers are correct, so a file without the key is fine.
 */
export function gainsMuchFromRepack(path: string): boolean {
  const fd = openSync(path, "r");
  try {
    const head = Buffer.alloc(HEAD_BYTES);
    const length = readIntoSync(fd, head, 0);
    const key = Buffer.from("general.file_type");
    const at = head.indexOf(key) + key.length + 4; // after the type of the value
    return at < key.length + 4 || at + 4 > length || !UNQUANTIZED.has(head.readUInt32LE(at));
  } finally {
    closeSync(fd);
  }
}

export type LoadOptions = {
  path: string;
  /** Empty for the CPU. */
  devices: readonly Ptr[];
  repack: boolean;
  /** Load only the tokenizer, without weights. */
  vocabOnly?: boolean;
  /** Called on this thread during the load, which blocks it. */
  onProgress?: ((fraction: number) => void) | undefined;
};

export function loadModel(llama: Llama, { path, devices, repack, vocabOnly = false, onProgress }: LoadOptions): Ptr {
  const list = BigUint64Array.from([...devices.map(BigInt), 0n]); // ends with null
  const progress = onProgress && progressCallback(onProgress);
  try {
    llama.forgetError();
    const words = modelParams(llama, {
      devices: ptr(list),
      gpuLayers: devices.length > 0 ? -1 : 0,
      progress: progress?.ptr ?? null,
      mmap: true,
      repack,
      vocabOnly,
    });
    const file = cstr(path);
    const model = llama.llama_model_load_from_file(file, words);
    const name = basename(path); // API callers see the error and must not learn the directory.
    if (model === null) throw new Error(`${name} cannot be loaded: ${llama.firstError() || "no reason given"}`);
    return must(model, name);
  } finally {
    progress?.close();
  }
}

function progressCallback(report: (fraction: number) => void): JSCallback {
  const call = (fraction: number) => {
    report(fraction);
    return true;
  };
  return new JSCallback(call, { args: [FFIType.f32, FFIType.ptr], returns: FFIType.bool });
}

const METADATA_BYTES = 256;

/** A value of the file as text; "" if the file has no such key. A longer text is cut. */
export function metadataText(llama: Llama, model: Ptr, key: string): string {
  const room = Buffer.alloc(METADATA_BYTES);
  const length = llama.llama_model_meta_val_str(model, cstr(key), room, room.length);
  return room.toString("utf8", 0, Math.min(Math.max(0, length), METADATA_BYTES - 1));
}

export function openContext(llama: Llama, model: Ptr, params: ContextParams): Ptr {
  llama.forgetError();
  const words = contextParams(llama, params);
  const context = llama.llama_init_from_model(model, words);
  if (context !== null) return must(context, "context");
  const size = `${params.sequences} × ${Math.floor(params.contextTokens / params.sequences)} tokens`;
  throw new Error(`There is not enough memory for a context of ${size}: ${llama.firstError() || "no reason given"}`);
}

/** Devices, memory and tensors of ggml, for the trainer. */
import { CFunction, ptr } from "bun:ffi";
import { type Kernels, openKernels } from "../cuda/kernels.ts";
import { cstr, must, type Ptr, text } from "../ffi.ts";
import { llamaLibraries } from "../llama/libraries.ts";
import { OutOfMemory } from "./out_of_memory.ts";
import { type Ggml, openGgml, type Shape } from "./symbols.ts";

export const TYPE = { F32: 0, F16: 1, Q8_0: 8, I32: 26, BF16: 30 } as const;
export const isQuantized = (type: number) => type !== TYPE.F32 && type !== TYPE.F16 && type !== TYPE.BF16;

/** Values of `ggml_backend_dev_type`. */
export const CPU_TYPE = 0;
export const GPU_TYPE = 1;

/**
 * `kernels: false` uses ggml alone, without our own kernels. `beside: "cuda"` is for a CPU device in a process that
 * also uses a GPU: that process must not load a second set of libraries.
 */
export type Device =
  | { kind: "cpu"; threads: number; beside?: "cuda" }
  | { kind: "cuda"; index: number; kernels?: boolean };
export type Backend = {
  readonly ggml: Ggml;
  readonly at: Ptr;
  readonly kind: Device["kind"];
  /** Null if this build has no kernels for this device. */
  readonly kernels: Kernels | null;
  close: () => void;
};

export function openBackend(dataDir: string, device: Device): Backend {
  const ggml = openGgml(dataDir, { cuda: device.kind === "cuda" || device.beside === "cuda" });
  const wanted = device.kind === "cpu" ? CPU_TYPE : GPU_TYPE;
  const all = Array.from({ length: Number(ggml.ggml_backend_dev_count()) }, (_, i) => ggml.ggml_backend_dev_get(i));
  const candidates = all.filter((each) => each !== null && ggml.ggml_backend_dev_type(each) === wanted);
  const chosen = candidates[device.kind === "cuda" ? device.index : 0];
  if (!chosen) throw new Error(`ggml finds no usable ${device.kind === "cpu" ? "CPU" : `GPU ${device.index}`}`);
  const at = must(ggml.ggml_backend_dev_init(chosen, null), text(ggml.ggml_backend_dev_name(chosen)));
  if (device.kind === "cpu") setThreads(ggml, must(chosen, "CPU"), at, device.threads);
  const usesKernels = device.kind === "cuda" && device.kernels !== false;
  const kernels = usesKernels ? openKernels(llamaLibraries(dataDir, { cuda: true }).dir, device.index) : null;
  const close = () => {
    kernels?.close();
    ggml.ggml_backend_free(at);
  };
  return { ggml, at, kind: device.kind, kernels, close };
}

/** The function is in the library that was chosen for this processor. Only the registry knows its address. */
function setThreads(ggml: Ggml, device: Ptr, backend: Ptr, threads: number) {
  const registry = ggml.ggml_backend_dev_backend_reg(device);
  const name = cstr("ggml_backend_set_n_threads");
  const address = must(ggml.ggml_backend_reg_get_proc_address(registry, ptr(name)), "ggml_backend_set_n_threads");
  CFunction({ ptr: address, args: ["ptr", "i32"], returns: "void" })(backend, threads);
}

/** Holds the descriptions of tensors and graphs, but not their bytes. */
export type Context = { readonly at: Ptr; free: () => void };

export function newContext(ggml: Ggml, tensors: number, graphNodes = 0): Context {
  const graph = graphNodes === 0 ? 0 : Number(ggml.ggml_graph_overhead_custom(graphNodes, false));
  const bytes = Number(ggml.ggml_tensor_overhead()) * (tensors + 8) + graph;
  const at = must(ggml.ggml_init(bytes, true), "ggml_init");
  return { at, free: () => ggml.ggml_free(at) };
}

export function newTensor(ggml: Ggml, context: Context, type: number, shape: readonly number[]): Ptr {
  const [a = 1, b = 1, c = 1, d = 1] = shape;
  return must(ggml.ggml_new_tensor_4d(context.at, type, a, b, c, d), "tensor");
}

/** Gives every tensor of the context its bytes on the device, all zero. */
export function allocate(
  { ggml, at }: Pick<Backend, "ggml" | "at">,
  context: Context,
): { bytes: number; clear: () => void; free: () => void } {
  const buffer = ggml.ggml_backend_alloc_ctx_tensors(context.at, at);
  if (buffer === null) throw new OutOfMemory("The device has not enough memory for the weights");
  const memory = must(buffer, "buffer");
  const clear = () => ggml.ggml_backend_buffer_clear(memory, 0);
  clear();
  return {
    bytes: Number(ggml.ggml_backend_buffer_get_size(memory)),
    clear,
    free: () => ggml.ggml_backend_buffer_free(memory),
  };
}

export function putBytes(ggml: Ggml, tensor: Ptr, bytes: NodeJS.TypedArray, offset = 0) {
  ggml.ggml_backend_tensor_set(tensor, ptr(bytes), offset, bytes.byteLength);
}

/** Reads an F32 tensor. */
export function getFloats(ggml: Ggml, tensor: Ptr, into?: Float32Array): Float32Array {
  const values = into ?? new Float32Array(Number(ggml.ggml_nelements(tensor)));
  ggml.ggml_backend_tensor_get(tensor, ptr(values), 0, values.byteLength);
  return values;
}

export type { Ggml, Ptr, Shape };
export { OutOfMemory };

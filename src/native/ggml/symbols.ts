/**
 * The typed surface of libggml, for the trainer and for the serving engine. Every call may end the process on a
 * violated assertion, so only child processes use it.
 */
import { dlopen, FFIType, ptr, read } from "bun:ffi";
import { cstr, must, type Ptr, text } from "../ffi.ts";
import { setNativeEnv } from "../libc.ts";
import { type LlamaLibraries, openOnce } from "../llama/libraries.ts";
import { ggmlCalls, openShim } from "../shim/shim.ts";

const P = "ptr";
const I = "i32";
const F = "f32";
const B = "bool";
const V = "void";
const U = FFIType.u64_fast;
const L = FFIType.i64_fast;
const one = { args: [P, P], returns: P } as const; // context, a
const two = { args: [P, P, P], returns: P } as const; // context, a, b
const rope = { args: [P, P, P, P, I, I, I, F, F, F, F, F, F], returns: P } as const;

const BASE = {
  ggml_free: { args: [P], returns: V },
  ggml_version: { args: [], returns: P },
  ggml_tensor_overhead: { args: [], returns: U },
  ggml_graph_overhead_custom: { args: [U, B], returns: U },
  ggml_row_size: { args: [I, L], returns: U },
  ggml_nbytes: { args: [P], returns: U },
  ggml_nelements: { args: [P], returns: L },
  ggml_get_data: { args: [P], returns: P },

  ggml_new_tensor_2d: { args: [P, I, U, U], returns: P },
  ggml_new_tensor_4d: { args: [P, I, L, L, L, L], returns: P },
  ggml_set_name: { args: [P, P], returns: P },
  ggml_set_input: { args: [P], returns: V },
  ggml_set_param: { args: [P], returns: V },
  ggml_set_output: { args: [P], returns: V },

  ggml_add: two,
  ggml_add_inplace: two,
  ggml_sub: two,
  ggml_mul: two,
  ggml_mul_mat: two,
  ggml_mul_mat_id: { args: [P, P, P, P], returns: P },
  ggml_add_id: { args: [P, P, P, P], returns: P },
  ggml_out_prod: two,
  ggml_get_rows: two,
  ggml_get_rows_back: { args: [P, P, P, P], returns: P },
  ggml_set_rows: { args: [P, P, P, P], returns: P },
  ggml_repeat_4d: { args: [P, P, L, L, L, L], returns: P },
  ggml_repeat_back: two,
  ggml_silu: one,
  ggml_gelu: one,
  ggml_gelu_quick: one,
  ggml_silu_back: two,
  ggml_swiglu_split: two,
  ggml_sqr: one,
  ggml_tanh: one,
  ggml_sigmoid: one,
  ggml_step: one,
  ggml_log: one,
  ggml_cumsum: one,
  ggml_sum: one,
  ggml_sum_rows: one,
  ggml_scale: { args: [P, P, F], returns: P },
  ggml_scale_bias: { args: [P, P, F, F], returns: P },
  ggml_clamp: { args: [P, P, F, F], returns: P },
  ggml_norm: { args: [P, P, F], returns: P },
  ggml_rms_norm: { args: [P, P, F], returns: P },
  ggml_rms_norm_back: { args: [P, P, P, F], returns: P },
  ggml_argsort_top_k: { args: [P, P, I], returns: P },
  ggml_soft_max: one,
  ggml_soft_max_add_sinks: { args: [P, P], returns: V },
  ggml_soft_max_ext: { args: [P, P, P, F, F], returns: P },
  ggml_soft_max_ext_back: { args: [P, P, P, F, F], returns: P },
  ggml_flash_attn_ext: { args: [P, P, P, P, P, F, F, F], returns: P },
  ggml_flash_attn_ext_set_prec: { args: [P, I], returns: V },
  ggml_pool_2d: { args: [P, P, I, I, I, I, I, F, F], returns: P }, // kind, kernel, stride, padding
  ggml_rope_ext: rope,
  ggml_rope_ext_back: rope,
  ggml_cont: one,
  ggml_transpose: one,
  ggml_cast: { args: [P, P, I], returns: P },
  ggml_cpy: two,
  ggml_concat: { args: [P, P, P, I], returns: P },
  ggml_permute: { args: [P, P, I, I, I, I], returns: P },
  ggml_reshape_2d: { args: [P, P, U, U], returns: P },
  ggml_reshape_3d: { args: [P, P, U, U, U], returns: P },
  ggml_reshape_4d: { args: [P, P, L, L, L, L], returns: P },
  ggml_view_2d: { args: [P, P, U, U, U, U], returns: P }, // row, rows, bytes to the next row, offset
  ggml_view_4d: { args: [P, P, L, L, L, L, U, U, U, U], returns: P },
  ggml_opt_step_adamw: { args: [P, P, P, P, P, P], returns: P },

  ggml_new_graph_custom: { args: [P, U, B], returns: P },
  ggml_build_forward_expand: { args: [P, P], returns: V },
  ggml_graph_n_nodes: { args: [P], returns: I },

  ggml_backend_alloc_ctx_tensors: { args: [P, P], returns: P },
  ggml_backend_get_default_buffer_type: { args: [P], returns: P },
  ggml_backend_buffer_get_size: { args: [P], returns: U },
  ggml_backend_buffer_clear: { args: [P, "u8"], returns: V },
  ggml_backend_buffer_free: { args: [P], returns: V },
  ggml_backend_graph_compute: { args: [P, P], returns: I },
  ggml_backend_supports_op: { args: [P, P], returns: B },
  ggml_backend_tensor_set: { args: [P, P, U, U], returns: V },
  ggml_backend_tensor_get: { args: [P, P, U, U], returns: V },
  ggml_backend_free: { args: [P], returns: V },
  ggml_backend_dev_name: { args: [P], returns: P },
  ggml_backend_dev_description: { args: [P], returns: P },
  ggml_backend_dev_type: { args: [P], returns: I },
  ggml_backend_dev_memory: { args: [P, P, P], returns: V },
  ggml_backend_dev_init: { args: [P, P], returns: P },
  ggml_backend_dev_backend_reg: { args: [P], returns: P },
  ggml_backend_reg_get_proc_address: { args: [P, P], returns: P },
  ggml_gallocr_new: { args: [P], returns: P },
  ggml_gallocr_alloc_graph: { args: [P, P], returns: B },
  ggml_gallocr_get_buffer_size: { args: [P, I], returns: U },
  ggml_gallocr_free: { args: [P], returns: V },

  ggml_quantize_chunk: { args: [I, P, P, L, L, L, P], returns: U },
  ggml_fp32_to_bf16_row: { args: [P, P, L], returns: V },
  ggml_fp32_to_fp16_row: { args: [P, P, L], returns: V },
} as const;

const REGISTRY = {
  ggml_backend_load_all_from_path: { args: [P], returns: V },
  ggml_backend_dev_count: { args: [], returns: U },
  ggml_backend_dev_get: { args: [U], returns: P },
} as const;

export type Ggml = ReturnType<typeof bindGgml>;

/** Binds libggml without its backends, which `loadBackends` loads. */
export function bindGgml(dataDir: string, { files }: LlamaLibraries) {
  const base = { ...dlopen(files.ggmlBase, BASE).symbols, ...ggmlCalls(openShim(dataDir), files.ggmlBase) };
  return { ...base, ...dlopen(files.ggml, REGISTRY).symbols };
}

/** Devices belong to the process, and loading them twice would list each twice. `first` runs before the first load. */
export function loadBackends(ggml: Ggml, dir: string, first?: () => void) {
  setNativeEnv("GGML_NO_BACKTRACE", "1"); // A failed assertion would start gdb and hide its own message.
  if (Number(ggml.ggml_backend_dev_count()) > 0) return;
  first?.();
  ggml.ggml_backend_load_all_from_path(ptr(cstr(dir)));
}

export const openGgml = openOnce((dataDir, libraries) => {
  const ggml = bindGgml(dataDir, libraries);
  loadBackends(ggml, libraries.dir);
  checkLayout(ggml);
  return ggml;
});

/** Offsets in struct ggml_tensor. Another release may move the fields, so `checkLayout` compares them at every start. */
const AT = { type: 0, ne: 16, nb: 48 };

export const typeOf = (tensor: Ptr): number => read.i32(tensor, AT.type);
export type Shape = readonly [number, number, number, number];
const four = (get: (i: number) => bigint): Shape => [0, 1, 2, 3].map((i) => Number(get(i))) as unknown as Shape;
/** Elements in each dimension; the first is the row. */
export const shapeOf = (tensor: Ptr): Shape => four((i) => read.i64(tensor, AT.ne + 8 * i));
/** Bytes from one element to the next in each dimension. */
export const stridesOf = (tensor: Ptr): Shape => four((i) => read.u64(tensor, AT.nb + 8 * i));

function checkLayout(ggml: Ggml) {
  const context = must(ggml.ggml_init(4096, true), "ggml_init");
  const probe = must(ggml.ggml_new_tensor_4d(context, 1, 5, 7, 11, 13), "tensor");
  const layout = [typeOf(probe), ...shapeOf(probe), ...stridesOf(probe)].join();
  ggml.ggml_free(context);
  if (layout !== "1,5,7,11,13,2,10,70,770") {
    throw new Error(`ggml ${text(ggml.ggml_version())} has another layout of tensors than this program was built for`);
  }
}

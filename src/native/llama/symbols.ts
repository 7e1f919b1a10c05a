/**
 * The surface of libllama and libggml that this program calls, typed. Calls with a struct by value go through shim.ts;
 * llama_params.ts lays these structs out and refuses a library whose layout differs.
 */
import { dlopen, FFIType, ptr } from "bun:ffi";
import { explainLoad } from "../bundle/addon.ts";
import { cstr, text } from "../ffi.ts";
import { setNativeEnv } from "../libc.ts";
import { ggmlCalls, llamaCalls, openShim } from "../shim/shim.ts";
import { llamaLibraries } from "./libraries.ts";
import { keepOnlyErrors } from "./log.ts";
import { checkLayouts } from "./params.ts";

export type Llama = ReturnType<typeof load>;

const P = "ptr";
const I = "i32";
const F = "f32";
const U = FFIType.u64_fast;
const B = "bool";
const V = "void";

const LLAMA = {
  llama_version: { args: [], returns: P },
  llama_backend_init: { args: [], returns: V },
  llama_log_set: { args: [P, P], returns: V },
  llama_model_free: { args: [P], returns: V },
  llama_free: { args: [P], returns: V },

  llama_model_get_vocab: { args: [P], returns: P },
  llama_model_n_ctx_train: { args: [P], returns: I },
  llama_model_n_embd_out: { args: [P], returns: I },
  llama_model_n_params: { args: [P], returns: U },
  llama_model_size: { args: [P], returns: U },
  llama_model_meta_val_str: { args: [P, P, P, U], returns: I },
  llama_model_chat_template: { args: [P, P], returns: P },
  llama_model_has_encoder: { args: [P], returns: B },
  llama_model_has_decoder: { args: [P], returns: B },
  llama_model_is_recurrent: { args: [P], returns: B },
  llama_model_is_hybrid: { args: [P], returns: B },
  llama_model_is_diffusion: { args: [P], returns: B },

  llama_vocab_n_tokens: { args: [P], returns: I },
  llama_vocab_bos: { args: [P], returns: I },
  llama_vocab_eos: { args: [P], returns: I },
  llama_vocab_get_text: { args: [P, I], returns: P },
  llama_vocab_is_eog: { args: [P, I], returns: B },
  llama_vocab_is_control: { args: [P, I], returns: B },
  llama_vocab_get_add_bos: { args: [P], returns: B },
  llama_tokenize: { args: [P, P, I, P, I, B, B], returns: I },
  llama_token_to_piece: { args: [P, I, P, I, I, B], returns: I },

  llama_get_memory: { args: [P], returns: P },
  llama_memory_clear: { args: [P, B], returns: V },
  llama_memory_seq_rm: { args: [P, I, I, I], returns: B },
  llama_memory_seq_cp: { args: [P, I, I, I, I], returns: V },
  llama_memory_seq_pos_max: { args: [P, I], returns: I },

  llama_synchronize: { args: [P], returns: V },
  llama_get_logits: { args: [P], returns: P },
  llama_get_logits_ith: { args: [P, I], returns: P },
  llama_get_embeddings_ith: { args: [P, I], returns: P },
  llama_get_embeddings_seq: { args: [P, I], returns: P },
  llama_n_ctx_seq: { args: [P], returns: "u32" },
  llama_set_sampler: { args: [P, I, P], returns: B },
  llama_get_sampled_probs_ith: { args: [P, I], returns: P },
  llama_get_sampled_probs_count_ith: { args: [P, I], returns: "u32" },

  llama_adapter_lora_init: { args: [P, P], returns: P },
  llama_adapter_lora_free: { args: [P], returns: V },
  llama_set_adapters_lora: { args: [P, P, U, P], returns: I },

  llama_sampler_init: { args: [P, U], returns: P },
  llama_sampler_chain_init: { args: ["u8"], returns: P }, // a struct of one bool: no_perf
  llama_sampler_chain_add: { args: [P, P], returns: V },
  llama_sampler_free: { args: [P], returns: V },
  llama_sampler_copy: { args: [P, P], returns: V },
  llama_sampler_apply: { args: [P, P], returns: V },
  llama_sampler_accept: { args: [P, I], returns: V },
  llama_sampler_sample: { args: [P, P, I], returns: I },
  llama_sampler_init_greedy: { args: [], returns: P },
  llama_sampler_init_dist: { args: ["u32"], returns: P },
  llama_sampler_init_top_k: { args: [I], returns: P },
  llama_sampler_init_top_p: { args: [F, U], returns: P },
  llama_sampler_init_min_p: { args: [F, U], returns: P },
  llama_sampler_init_temp: { args: [F], returns: P },
  llama_sampler_init_penalties: { args: [I, I, F, F, F], returns: P },
  llama_sampler_init_logit_bias: { args: [I, I, P], returns: P },
  llama_sampler_init_grammar: { args: [P, P, P], returns: P },
} as const;

const GGML = {
  ggml_backend_load_all_from_path: { args: [P], returns: V },
  ggml_backend_dev_count: { args: [], returns: U },
  ggml_backend_dev_get: { args: [U], returns: P },
} as const;

const GGML_BASE = {
  ggml_free: { args: [P], returns: V },
  ggml_new_tensor_2d: { args: [P, I, U, U], returns: P },
  ggml_set_input: { args: [P], returns: V },
  ggml_view_2d: { args: [P, P, U, U, U, U], returns: P }, // row, rows, bytes to the next row, offset
  ggml_reshape_2d: { args: [P, P, U, U], returns: P },
  ggml_reshape_3d: { args: [P, P, U, U, U], returns: P },
  ggml_mul: { args: [P, P, P], returns: P },
  ggml_sub: { args: [P, P, P], returns: P },
  ggml_step: { args: [P, P], returns: P },
  ggml_log: { args: [P, P], returns: P },
  ggml_soft_max: { args: [P, P], returns: P },
  ggml_cumsum: { args: [P, P], returns: P },
  ggml_sum_rows: { args: [P, P], returns: P },
  ggml_clamp: { args: [P, P, F, F], returns: P },
  ggml_scale_bias: { args: [P, P, F, F], returns: P },
  ggml_cast: { args: [P, P, I], returns: P },
  ggml_get_rows: { args: [P, P, P], returns: P },
  ggml_concat: { args: [P, P, P, I], returns: P },
  ggml_backend_tensor_set: { args: [P, P, U, U], returns: V },
  ggml_backend_dev_name: { args: [P], returns: P },
  ggml_backend_dev_description: { args: [P], returns: P },
  ggml_backend_dev_type: { args: [P], returns: I },
  ggml_backend_dev_memory: { args: [P, P, P], returns: V },
} as const;

const loaded = new Map<string, Llama>();

/** Once per thread and set of libraries. The libraries themselves, and every pointer, belong to the whole process. */
export function openLlama(dataDir: string, want: { cuda: boolean }): Llama {
  const key = `${dataDir}\0${want.cuda}`;
  const found = loaded.get(key) ?? load(dataDir, want);
  loaded.set(key, found);
  return found;
}

function load(dataDir: string, want: { cuda: boolean }) {
  const { dir, files } = llamaLibraries(dataDir, want);
  try {
    const shim = openShim(dataDir);
    const base = { ...dlopen(files.ggmlBase, GGML_BASE).symbols, ...ggmlCalls(shim, files.ggmlBase) };
    const ggml = dlopen(files.ggml, GGML).symbols;
    const llama = { ...dlopen(files.llama, LLAMA).symbols, ...llamaCalls(shim, files.llama) };
    checkLayouts(llama, text(llama.llama_version()));
    const log = keepOnlyErrors(llama, shim);
    setNativeEnv("GGML_NO_BACKTRACE", "1"); // a failed assertion would start gdb and bury its own line
    if (Number(ggml.ggml_backend_dev_count()) === 0) {
      llama.llama_backend_init(); // registers its devices for good: a second time would list each twice
      ggml.ggml_backend_load_all_from_path(ptr(cstr(dir)));
    }
    return { ...base, ...ggml, ...llama, ...log };
  } catch (error) {
    throw explainLoad(error, dir);
  }
}

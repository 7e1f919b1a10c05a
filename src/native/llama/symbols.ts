/**
 * The typed surface of libllama. Calls with a struct by value go through shim.ts; params.ts lays these structs out and
 * rejects a library with another layout.
 */
import { CString, dlopen, FFIType, type Pointer } from "bun:ffi";
import { text } from "../ffi.ts";
import { bindGgml, loadBackends } from "../ggml/symbols.ts";
import { llamaCalls, openShim, type Shim } from "../shim/shim.ts";
import { openOnce } from "./libraries.ts";
import { checkLayouts } from "./params.ts";

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
  llama_model_n_cls_out: { args: [P], returns: "u32" },
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
  llama_vocab_sep: { args: [P], returns: I },
  llama_vocab_fim_pre: { args: [P], returns: I },
  llama_vocab_fim_suf: { args: [P], returns: I },
  llama_vocab_fim_mid: { args: [P], returns: I },
  llama_vocab_get_text: { args: [P, I], returns: P },
  llama_vocab_is_eog: { args: [P, I], returns: B },
  llama_vocab_is_control: { args: [P, I], returns: B },
  llama_vocab_get_add_bos: { args: [P], returns: B },
  llama_vocab_get_add_eos: { args: [P], returns: B },
  llama_vocab_get_add_sep: { args: [P], returns: B },
  llama_tokenize: { args: [P, P, I, P, I, B, B], returns: I },
  llama_token_to_piece: { args: [P, I, P, I, I, B], returns: I },

  llama_get_memory: { args: [P], returns: P },
  llama_memory_clear: { args: [P, B], returns: V },
  llama_memory_seq_rm: { args: [P, I, I, I], returns: B },
  llama_memory_seq_cp: { args: [P, I, I, I, I], returns: V },
  llama_memory_seq_pos_max: { args: [P, I], returns: I },

  llama_state_seq_get_size: { args: [P, I], returns: U },
  llama_state_seq_get_data: { args: [P, P, U, I], returns: U },
  llama_state_seq_set_data: { args: [P, P, U, I], returns: U },

  llama_set_n_threads: { args: [P, I, I], returns: V },
  llama_set_causal_attn: { args: [P, B], returns: V },
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
  llama_sampler_clone: { args: [P], returns: P },
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

export type Llama = ReturnType<typeof openLlama>;

/** The libraries themselves, and every pointer, belong to the whole process. */
export const openLlama = openOnce((dataDir, libraries) => {
  const { dir, files } = libraries;
  const shim = openShim(dataDir);
  const ggml = bindGgml(dataDir, libraries);
  const llama = { ...dlopen(files.llama, LLAMA).symbols, ...llamaCalls(shim, files.llama) };
  checkLayouts(llama, text(llama.llama_version()));
  const log = keepOnlyErrors(llama, shim);
  loadBackends(ggml, dir, () => llama.llama_backend_init());
  return { ...ggml, ...llama, ...log };
});

type LogSymbols = { llama_log_set: (callback: Pointer, context: null) => unknown };
type ErrorLog = { forgetError: () => void; firstError: () => string };

/**
 * Call it before any other function of the library: the default logger prints thousands of lines. libllama calls its
 * logger from any thread, so the logger cannot be JavaScript. verk_log of the shim keeps the first error. There is one
 * logger for the process.
 */
export function keepOnlyErrors(llama: LogSymbols, shim: Shim): ErrorLog {
  llama.llama_log_set(shim.verk_log, null);
  return {
    forgetError: () => shim.verk_forget_error(),
    firstError: () => new CString(shim.verk_first_error() as Pointer).toString().trim(),
  };
}

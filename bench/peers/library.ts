/**
 * Measures the library alone, in a separate process: one decode call for N sequences, a sampler chain each, the
 * next call. No HTTP, no scheduler, no text. argv: JSON of Job. Prints JSON of Outcome.
 */
import { dlopen, FFIType, type Pointer, ptr } from "bun:ffi";
import { readdirSync, writeSync } from "node:fs";
import { join } from "node:path";
import { DEFAULTS_WORDS, llamaCalls, openShim } from "../../src/native/shim/shim.ts";

export type Job = {
  /** Folder of libllama, libggml and the backends: the one that the server uses. */
  libraries: string;
  model: string;
  threads: number;
  sequences: number;
  promptTokens: number;
  tokens: number;
  vocab: number;
};
export type Outcome = { perSecond: number; stepMs: number };

const BATCH = 2048;
const job = JSON.parse(process.argv[2] as string) as Job;
const find = (name: string) => {
  const file = readdirSync(job.libraries).find((each) => new RegExp(`^${name}(\\.cuda)?\\.v.*\\.so$`).test(each));
  if (!file) throw new Error(`no ${name} in ${job.libraries}`);
  return join(job.libraries, file);
};
const cstr = (text: string) => Buffer.from(`${text}\0`);
const { ptr: P, i32: I, f32: F, u64_fast: U } = FFIType;

const ggml = dlopen(find("libggml"), { ggml_backend_load_all_from_path: { args: [P], returns: "void" } }).symbols;
const symbols = dlopen(find("libllama"), {
  llama_log_set: { args: [P, P], returns: "void" },
  llama_backend_init: { args: [], returns: "void" },
  llama_get_memory: { args: [P], returns: P },
  llama_memory_clear: { args: [P, "bool"], returns: "void" },
  llama_sampler_chain_init: { args: ["u8"], returns: P },
  llama_sampler_chain_add: { args: [P, P], returns: "void" },
  llama_sampler_init_top_k: { args: [I], returns: P },
  llama_sampler_init_top_p: { args: [F, U], returns: P },
  llama_sampler_init_temp: { args: [F], returns: P },
  llama_sampler_init_dist: { args: ["u32"], returns: P },
  llama_sampler_sample: { args: [P, P, I], returns: I },
}).symbols;
const llama = { ...symbols, ...llamaCalls(openShim(""), find("libllama")) };

function open(): Pointer {
  llama.llama_backend_init();
  ggml.ggml_backend_load_all_from_path(ptr(cstr(job.libraries)));
  const model = new BigUint64Array(DEFAULTS_WORDS);
  llama.llama_model_default_params(model);
  const weights = llama.llama_model_load_from_file(cstr(job.model), model) as Pointer | null;
  if (!weights) throw new Error(`${job.model} does not load`);
  const context = new BigUint64Array(DEFAULTS_WORDS);
  llama.llama_context_default_params(context);
  const fields = new Int32Array(context.buffer);
  const each = Math.ceil((job.promptTokens + job.tokens + 1) / 256) * 256;
  fields.set([each * job.sequences, BATCH, 512, job.sequences]);
  fields.set([job.threads, job.threads], 7);
  const opened = llama.llama_init_from_model(weights, context);
  if (!opened) throw new Error("no context");
  return opened as Pointer;
}

/** The chain of the requests: top_k 40, top_p 0.95, temperature 0.8, a seed. */
function chainOf(seed: number): Pointer {
  const chain = llama.llama_sampler_chain_init(1) as Pointer;
  llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_top_k(40));
  llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_top_p(0.95, 1));
  llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_temp(0.8));
  llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_dist(seed));
  return chain;
}

const context = open();
const token = new Int32Array(BATCH);
const position = new Int32Array(BATCH);
const counts = new Int32Array(BATCH).fill(1);
const sequence = new Int32Array(BATCH);
const sequences = BigUint64Array.from({ length: BATCH }, (_, i) => BigInt(ptr(sequence)) + BigInt(i * 4));
const wanted = new Int8Array(BATCH);

/** Gives the arrays each time: one that nothing mentions any more is collected under the library's hands. */
function decode(count: number) {
  const code = llama.llama_decode(context, count, token, position, counts, sequences, wanted);
  if (code !== 0) throw new Error(`decode gave ${code}`);
}

/** Reads the prompts of `count` sequences, as many as fit into one batch at once; the first token of each. */
function prefill(chains: readonly Pointer[], next: Int32Array, salt: number) {
  const group = Math.max(1, Math.floor(BATCH / job.promptTokens));
  for (let from = 0; from < chains.length; from += group) {
    const upTo = Math.min(chains.length, from + group);
    let i = 0;
    for (let s = from; s < upTo; s++)
      for (let p = 0; p < job.promptTokens; p++, i++) {
        token[i] = (salt + s * 7 + p * 13) % Math.min(job.vocab, 200);
        position[i] = p;
        sequence[i] = s;
        wanted[i] = p === job.promptTokens - 1 ? 1 : 0;
      }
    decode(i);
    for (let s = from; s < upTo; s++)
      next[s] = llama.llama_sampler_sample(chains[s] as Pointer, context, (s - from + 1) * job.promptTokens - 1);
  }
}

const clear = () => llama.llama_memory_clear(llama.llama_get_memory(context), false);

function generate(salt: number): { seconds: number; stepMs: number } {
  clear();
  const chains = Array.from({ length: job.sequences }, (_, s) => chainOf(s + 1));
  const next = new Int32Array(job.sequences);
  const began = performance.now();
  prefill(chains, next, salt);
  const read = performance.now();
  for (let s = 0; s < job.sequences; s++) {
    sequence[s] = s;
    wanted[s] = 1;
  }
  for (let t = 0; t < job.tokens - 1; t++) {
    for (let s = 0; s < job.sequences; s++) {
      token[s] = next[s] as number;
      position[s] = job.promptTokens + t;
    }
    decode(job.sequences);
    for (let s = 0; s < job.sequences; s++) next[s] = llama.llama_sampler_sample(chains[s] as Pointer, context, s);
  }
  const end = performance.now();
  return { seconds: (end - began) / 1000, stepMs: (end - read) / Math.max(1, job.tokens - 1) };
}

function warm(salt: number) {
  clear();
  prefill([chainOf(1)], new Int32Array(1), salt);
}

const report = (outcome: Outcome) => void writeSync(1, `${JSON.stringify(outcome)}\n`); // before the exit, surely
for (let i = 0; i < 3; i++) warm(i);
const { seconds, stepMs } = generate(5);
report({ perSecond: (job.sequences * job.tokens) / seconds, stepMs });
process.exit(0); // the library's own teardown is not ours to time

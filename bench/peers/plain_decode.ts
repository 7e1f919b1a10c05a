/**
 * llama.cpp's own batched decode, called in a plain loop: the same model, batch, sampler chains and threads as the
 * engine, and nothing else. One round: read every prompt, then `tokens` steps of one batch.
 */
import { ptr } from "bun:ffi";
import { must, type Ptr } from "../../src/native/ffi.ts";
import { loadModel, openContext } from "../../src/native/llama/load.ts";
import { type Llama, openLlama } from "../../src/native/llama/symbols.ts";

export type PlainOptions = {
  dataDir: string;
  modelPath: string;
  streams: number;
  contextLength: number;
  threads: number;
};
export type Plain = { round: (prompts: readonly Int32Array[], tokens: number) => number; close: () => void };

export const SAMPLING = { temperature: 0.8, topK: 40, topP: 0.95 };

function chain(llama: Llama, seed: number): Ptr {
  const made = must(llama.llama_sampler_chain_init(1), "chain");
  const links = [
    llama.llama_sampler_init_top_k(SAMPLING.topK),
    llama.llama_sampler_init_top_p(SAMPLING.topP, 1),
    llama.llama_sampler_init_temp(SAMPLING.temperature),
    llama.llama_sampler_init_dist(seed),
  ];
  for (const link of links) llama.llama_sampler_chain_add(made, link);
  return made;
}

export function openPlain({ dataDir, modelPath, streams, contextLength, threads }: PlainOptions): Plain {
  const llama = openLlama(dataDir, { cuda: false });
  const model = loadModel(llama, { path: modelPath, devices: [], repack: true });
  const context = openContext(llama, model, {
    contextTokens: contextLength * streams,
    batchTokens: 2048,
    microBatchTokens: 512,
    sequences: streams,
    threads,
    unified: false,
    embeddings: false,
  });
  const memory = must(llama.llama_get_memory(context), "memory");
  const size = 2048;
  const [tokens, positions, owners] = [new Int32Array(size), new Int32Array(size), new Int32Array(size)];
  const counts = new Int32Array(size).fill(1);
  const wants = new Int8Array(size);
  const first = BigInt(ptr(owners));
  const lists = BigUint64Array.from({ length: size }, (_, i) => first + BigInt(4 * i));
  const decode = (n: number) => {
    const code = llama.llama_decode(context, n, tokens, positions, counts, lists, wants);
    if (code !== 0) throw new Error(`llama_decode returned ${code}`);
  };

  /** Milliseconds. */
  const round = (prompts: readonly Int32Array[], count: number): number => {
    const chains = prompts.map((_, i) => chain(llama, i + 1));
    const startedAt = performance.now();
    llama.llama_memory_clear(memory, false);
    let row = 0;
    const last: number[] = [];
    prompts.forEach((prompt, stream) => {
      prompt.forEach((token, position) => {
        tokens[row] = token;
        positions[row] = position;
        owners[row] = stream;
        wants[row++] = position === prompt.length - 1 ? 1 : 0;
      });
      last.push(row - 1);
    });
    decode(row);
    const next = last.map((at, stream) => llama.llama_sampler_sample(chains[stream]!, context, at));
    wants.fill(1);
    for (let step = 1; step < count; step++) {
      for (let stream = 0; stream < prompts.length; stream++) {
        tokens[stream] = next[stream]!;
        positions[stream] = prompts[stream]!.length + step - 1;
        owners[stream] = stream;
      }
      decode(prompts.length);
      for (let stream = 0; stream < prompts.length; stream++) {
        next[stream] = llama.llama_sampler_sample(chains[stream]!, context, stream);
      }
    }
    const tookMs = performance.now() - startedAt;
    for (const each of chains) llama.llama_sampler_free(each);
    return tookMs;
  };
  const close = () => {
    llama.llama_free(context);
    llama.llama_model_free(model);
  };
  return { round, close };
}

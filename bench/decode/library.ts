/** The library's own batched decode on the same card and file, without drawing: what llama-batched-bench measures. */
import { must } from "../../src/native/ffi.ts";
import { listGpus, loadModel, openContext } from "../../src/native/llama/load.ts";
import { openLlama } from "../../src/native/llama/symbols.ts";
import { Batch } from "../../src/workers/serving/engine/batch.ts";

/** Milliseconds in which the library reads a prompt of so many tokens. The best of three. */
export function libraryPromptMs({ dataDir, modelPath, prompt }: Omit<LibraryCase, "streams" | "tokens">): number {
  const { llama, context, free } = open({ dataDir, modelPath, cells: prompt + 16, sequences: 1 });
  const batch = new Batch(2048);
  const round = () => {
    llama.llama_memory_clear(must(llama.llama_get_memory(context), "memory"), true);
    const before = performance.now();
    for (let i = 0; i < prompt; i++) {
      batch.add(300 + ((i * 31) % 1700), i, 0, i === prompt - 1);
      if (batch.length < batch.capacity && i < prompt - 1) continue;
      if (batch.decode(llama, context) !== 0) throw new Error("llama_decode failed");
      batch.clear();
    }
    must(llama.llama_get_logits_ith(context, -1), "logits");
    return performance.now() - before;
  };
  const best = Math.min(round(), round(), round());
  free();
  return best;
}

export type LibraryCase = { dataDir: string; modelPath: string; streams: number; prompt: number; tokens: number };

/** Returns tokens a second of the decoding alone, and the most likely first tokens of stream 0. */
export function libraryRate({ dataDir, modelPath, streams, prompt, tokens }: LibraryCase): number {
  const cells = streams * (prompt + tokens + 16);
  const { llama, context, free } = open({ dataDir, modelPath, cells, sequences: streams });
  const batch = new Batch(2048);
  const decode = () => {
    const code = batch.decode(llama, context);
    if (code !== 0) throw new Error(`llama_decode returned ${code}`);
    batch.clear();
  };
  const wait = () => must(llama.llama_get_logits_ith(context, 0), "logits");
  for (let stream = 0; stream < streams; stream++)
    for (let i = 0; i < prompt; i++) {
      batch.add(300 + ((stream * 613 + i * 31) % 1700), i, stream, i === prompt - 1);
      if (batch.length === batch.capacity) decode();
    }
  if (batch.length > 0) decode();
  const step = (at: number) => {
    for (let stream = 0; stream < streams; stream++)
      batch.add(300 + ((at * 17 + stream) % 1700), prompt + at, stream, true);
    decode();
    wait();
  };
  for (let i = 0; i < 8; i++) step(i); // graphs are captured
  const before = performance.now();
  for (let i = 8; i < tokens; i++) step(i);
  const ms = performance.now() - before;
  free();
  return (1000 * streams * (tokens - 8)) / ms;
}

type Opening = { dataDir: string; modelPath: string; cells: number; sequences: number };

function open({ dataDir, modelPath, cells, sequences }: Opening) {
  const llama = openLlama(dataDir, { cuda: true });
  const gpu = listGpus(llama)[0];
  if (!gpu) throw new Error("The library finds no GPU: is libggml-cuda.so beside it?");
  const model = loadModel(llama, { path: modelPath, devices: [gpu.device], repack: false });
  const context = openContext(llama, model, {
    contextTokens: cells,
    batchTokens: 2048,
    microBatchTokens: 512,
    sequences,
    threads: 8,
    unified: false,
    embeddings: false,
  });
  const free = () => {
    llama.llama_free(context);
    llama.llama_model_free(model);
  };
  return { llama, context, free };
}

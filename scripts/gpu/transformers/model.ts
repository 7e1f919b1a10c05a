/** Logits of libllama, and log-probabilities and gradients of the trainer's engine: both on the CPU, all in F32. */
import { toArrayBuffer } from "bun:ffi";
import { open } from "../../../bench/training/gradients.ts";
import { openRandom } from "../../../src/lib/random.ts";
import { must } from "../../../src/native/ffi.ts";
import { type Device, getFloats, putBytes } from "../../../src/native/ggml/ggml.ts";
import { loadModel } from "../../../src/native/llama/load.ts";
import { contextParams } from "../../../src/native/llama/params.ts";
import { openLlama } from "../../../src/native/llama/symbols.ts";
import { buildGraph } from "../../../src/workers/trainer/engine/graph.ts";
import { type Lora, loraNames, loraScale } from "../../../src/workers/trainer/engine/weights.ts";
import { type Adapter, adapterOf } from "../../../src/workers/trainer/results/adapter.ts";
import { decode } from "../../../test/serving/reference.ts";

type Tokens = readonly (readonly number[])[];

const TARGETS = ["attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
export const LORA: Lora = { rank: 4, alpha: 8, rslora: false, targets: TARGETS };
const CONTEXT = { contextTokens: 64, batchTokens: 64, microBatchTokens: 64, sequences: 1, threads: 2 };
/** Words of llama_context_params that contextParams leaves alone; 0 means off, F32 and F32. */
const WORDS = { flashAttention: 13, typeOfKeys: 26, typeOfValues: 27 };

/** All logits of the sequences, in their order. The cache of keys and values is F16 by default. */
export function llamaLogits(dataDir: string, path: string, tokens: Tokens): Float32Array {
  const llama = openLlama(dataDir, { cuda: false });
  const model = loadModel(llama, { path, devices: [], repack: false });
  const words = contextParams(llama, { ...CONTEXT, unified: false, embeddings: false });
  const ints = new Int32Array(words.buffer);
  for (const at of Object.values(WORDS)) ints[at] = 0;
  const size = llama.llama_vocab_n_tokens(must(llama.llama_model_get_vocab(model), "vocab"));
  const rows = tokens.flatMap((sequence) => {
    const context = must(llama.llama_init_from_model(model, words), "context");
    decode(llama, context, Int32Array.from(sequence), 0);
    const found = sequence.map((_, row) => {
      const at = must(llama.llama_get_logits_ith(context, row), "logits");
      return new Float32Array(toArrayBuffer(at, 0, size * 4)).slice();
    });
    llama.llama_free(context);
    return found;
  });
  llama.llama_model_free(model);
  const all = new Float32Array(rows.length * size);
  for (const [i, row] of rows.entries()) all.set(row, i * size);
  return all;
}

export type Learned = {
  /** Log-probability of the next token with the file's own weights; none for the last token of a sequence. */
  plain: Float32Array;
  heads: number;
  keyHeads: number;
  adapter: Adapter;
  /** Gradients of the mean cross-entropy, in the place of A and B. */
  gradient: Adapter;
};

export function learn(path: string, device: Device, tokens: Tokens): Learned {
  const model = open(path, device, LORA);
  const { weights, backend, architecture } = model;
  try {
    shake(model);
    const length = tokens[0]?.length ?? 0;
    const shape = { tokens: length, rows: tokens.length, checkpoints: false, attentionBlock: 64, headChunk: 1024 };
    const batch = {
      ids: Int32Array.from(tokens.flat()),
      positions: Int32Array.from(tokens.flatMap((sequence) => sequence.map((_, i) => i))),
      sequences: new Int32Array(tokens.flat().length),
      targets: Int32Array.from(tokens.flatMap((sequence) => [...sequence.slice(1), -1])),
    };
    const reference = buildGraph(model, { ...shape, trains: false, reference: true });
    const plain = reference.forward(batch).slice();
    reference.free();
    const graph = buildGraph(model, { ...shape, trains: true });
    weights.clearGradients();
    graph.forward(batch);
    const count = tokens.length * (length - 1);
    graph.backward(Float32Array.from(batch.targets, (target) => (target < 0 ? 0 : 1 / count)));
    graph.free();
    const adapter = adapterOf(weights, architecture.name);
    const gradients = new Map(weights.trainable.map(({ name, gradient }) => [name, getFloats(backend.ggml, gradient)]));
    const layers = adapter.layers.map((layer) => {
      const { a, b } = loraNames(layer.name);
      return { ...layer, a: gradients.get(a) as Float32Array, b: gradients.get(b) as Float32Array };
    });
    const { heads, keyHeads } = architecture;
    return { plain, heads, keyHeads, adapter, gradient: { ...adapter, layers } };
  } finally {
    weights.free();
    backend.close();
  }
}

/** A and B so large that the adapter changes the model: B is zero at the start of a training. */
function shake({ weights, backend }: ReturnType<typeof open>) {
  const random = openRandom(5);
  for (const { name, tensor, shape } of weights.trainable) {
    const spread = name.endsWith(".lora_b") ? 0.5 / loraScale(LORA) : 1 / Math.sqrt(shape[0] ?? 1);
    const values = getFloats(backend.ggml, tensor).map(() => (random() * 2 - 1) * spread);
    putBytes(backend.ggml, tensor, values);
  }
}

/**
 * Does libllama compute what PyTorch computed? Tokens must be equal, logits nearly so.
 *
 *   bun scripts/tiny_model/check.ts models/verk-tiny.gguf OUT/reference.json
 */
import { type Pointer, ptr, toArrayBuffer } from "bun:ffi";
import { loadModel, openContext } from "../../src/native/llama_load.ts";
import { type Llama, must, openLlama, type Ptr } from "../../src/native/llama_symbols.ts";

type Reference = {
  logits: { text: string; tokens: number[]; last: number[]; middle: number[] }[];
  cuts: { text: string; tokens: number[] }[];
};
const MAX_DIFFERENCE = 0.05; // keys, values and products are F16 in libllama, F32 in the reference

function tokenize(llama: Llama, vocab: Ptr, text: string): number[] {
  const bytes = Buffer.from(text);
  const out = new Int32Array(bytes.length + 8);
  const count = llama.llama_tokenize(vocab, ptr(bytes), bytes.length, ptr(out), out.length, false, true);
  return Array.from(out.subarray(0, count));
}

function logitsAt(llama: Llama, context: Ptr, tokens: number[], places: number[]): Float32Array[] {
  const ids = Int32Array.from(tokens);
  const positions = Int32Array.from(tokens.keys());
  const counts = new Int32Array(tokens.length).fill(1);
  const zero = new Int32Array(1);
  const sequences = new BigUint64Array(tokens.length).fill(BigInt(ptr(zero)));
  const wanted = new Int8Array(tokens.length).fill(1);
  llama.llama_memory_clear(must(llama.llama_get_memory(context), "memory"), true);
  const batch = [ptr(ids), null, ptr(positions), ptr(counts), ptr(sequences), ptr(wanted)] as const;
  const code = llama.llama_decode(context, 0, 0, 0, 0, 0, tokens.length, ...batch);
  if (code !== 0) throw new Error(`llama_decode answered ${code}`);
  return places.map((place) => {
    const row = must(llama.llama_get_logits_ith(context, place), "logits") as Pointer;
    return new Float32Array(toArrayBuffer(row, 0, 1536 * 4)).slice();
  });
}

const [model_path = "", reference_path = ""] = Bun.argv.slice(2);
const reference: Reference = await Bun.file(reference_path).json();
const llama = openLlama("", { cuda: false });
const model = loadModel(llama, { path: model_path, devices: [], repack: false });
const vocab = must(llama.llama_model_get_vocab(model), "vocabulary");
const wrong = reference.cuts.filter((c) => tokenize(llama, vocab, c.text).join() !== c.tokens.join());
console.log(`tokens: ${reference.cuts.length - wrong.length} of ${reference.cuts.length} texts equal`);
for (const { text, tokens } of wrong.slice(0, 3))
  console.log(JSON.stringify(text), tokens, tokenize(llama, vocab, text));

const size = { contextTokens: 1024, batchTokens: 1024, microBatchTokens: 512, sequences: 1, threads: 1 };
const context = openContext(llama, model, { ...size, unified: false, embeddings: false });
let worst = 0;
for (const { text, tokens, last, middle } of reference.logits) {
  const [end, half] = logitsAt(llama, context, tokens, [tokens.length - 1, Math.floor(tokens.length / 2)]);
  const gap = (got: Float32Array, want: number[]) => Math.max(...want.map((v, i) => Math.abs(v - got[i]!)));
  const difference = Math.max(gap(end!, last), gap(half!, middle));
  worst = Math.max(worst, difference);
  console.log(`logits: largest difference ${difference.toFixed(4)} after ${JSON.stringify(text)}`);
}
process.exit(wrong.length === 0 && worst < MAX_DIFFERENCE ? 0 : 1);

/**
 * Does libllama cut texts as the tokenizer does that the rows of the training were made with?
 *
 *   python3 evaluate.py --cuts > cuts.json && bun check.ts ../../models/verk-tiny.gguf cuts.json
 */
import { ptr } from "bun:ffi";
import { must, type Ptr } from "../../src/native/ffi.ts";
import { loadModel } from "../../src/native/llama/load.ts";
import { type Llama, openLlama } from "../../src/native/llama/symbols.ts";

type Cut = { text: string; tokens: number[] };

function tokenize(llama: Llama, vocab: Ptr, text: string): number[] {
  const bytes = Buffer.from(text);
  const out = new Int32Array(bytes.length + 8);
  const count = llama.llama_tokenize(vocab, ptr(bytes), bytes.length, ptr(out), out.length, false, true);
  return Array.from(out.subarray(0, count));
}

const [modelPath = "", cutsPath = ""] = Bun.argv.slice(2);
const cuts: Cut[] = await Bun.file(cutsPath).json();
const llama = openLlama("", { cuda: false });
const model = loadModel(llama, { path: modelPath, devices: [], repack: false });
const vocab = must(llama.llama_model_get_vocab(model), "vocabulary");
const wrong = cuts.filter(({ text, tokens }) => tokenize(llama, vocab, text).join() !== tokens.join());
console.log(`${cuts.length - wrong.length} of ${cuts.length} texts are cut into the same tokens`);
for (const { text, tokens } of wrong.slice(0, 3))
  console.log(JSON.stringify(text), tokens, tokenize(llama, vocab, text));
process.exit(wrong.length === 0 ? 0 : 1);

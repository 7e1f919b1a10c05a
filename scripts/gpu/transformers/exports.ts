/** Writes everything that judge.py loads: the adapter, its gradient, the merged folder, and what Verk computes with it. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Row } from "../../../bench/tools.ts";
import { openBackend } from "../../../src/native/ggml/ggml.ts";
import { convert } from "../../../src/workers/inspector/convert/convert.ts";
import { WorkerError } from "../../../src/workers/protocol.ts";
import { createChatTemplate } from "../../../src/workers/serving/template.ts";
import { openTokenizer } from "../../../src/workers/trainer/data/tokenizer.ts";
import { openHfFolder } from "../../../src/workers/trainer/results/hf_folder.ts";
import { writeMergedGguf } from "../../../src/workers/trainer/results/merged_gguf.ts";
import { writePeft } from "../../../src/workers/trainer/results/peft.ts";
import { filesIn } from "../../../test/hugging_face.ts";
import type { Setup } from "../setup.ts";
import { near, type Said } from "./check.ts";
import { type Learned, llamaLogits } from "./model.ts";

type Of = { name: string; gguf: string; said: Said; learned: Learned };

/** Yields refusals and what an import of the export gives: judge.py finds the rest. */
export async function* exportAll({ dir, cpu }: Setup, of: Of): AsyncGenerator<Omit<Row, "bench">> {
  const { name, gguf, said, learned } = of;
  const { heads, keyHeads, adapter, gradient } = learned;
  const options = { heads, keyHeads, baseModel: null, dropout: 0 };
  await writePeft(join(dir, "peft"), adapter, options);
  await writePeft(join(dir, "gradient"), gradient, options);
  const backend = openBackend(dir, cpu);
  const merged = join(dir, "merged.gguf");
  await writeMergedGguf(backend, { base: gguf, path: merged, type: "F32", learned: { adapter } });
  const logits = llamaLogits(dir, merged, said.tokens);
  writeFileSync(join(dir, "merged.f32"), logits);
  writeFileSync(join(dir, "verk.json"), JSON.stringify(saidByVerk(dir, merged, said)));
  try {
    const folder = await openHfFolder(backend, { base: gguf, learned: { adapter }, type: "F32", limit: 200_000 });
    const into = join(dir, "exported");
    mkdirSync(into);
    for (const { name: file, content } of folder.entries) {
      const chunks: Uint8Array[] = [];
      for await (const chunk of content()) chunks.push(chunk.slice());
      writeFileSync(join(into, file), Buffer.concat(chunks));
    }
    await folder.close();
    const again = join(dir, "again.gguf");
    await convert({ files: filesIn(into), name, into: again, quantize: null, dataDir: dir, onProgress: () => {} });
    yield near(`${name}: logits of the export, imported again`, llamaLogits(dir, again, said.tokens), logits, 0);
  } catch (error) {
    if (!(error instanceof WorkerError)) throw error;
    yield { what: `${name}: an export as a Hugging Face folder`, value: error.message, target: "", ok: null };
  } finally {
    backend.close();
  }
}

/** Ids of the text, and the conversation in the chat template, both with Verk's own code. */
function saidByVerk(dir: string, gguf: string, { text, messages }: Said) {
  const tokenizer = openTokenizer(dir, gguf, false);
  try {
    const ids = [...tokenizer.tokenize(text, { addBos: tokenizer.facts.addsBos, special: true })];
    const template = createChatTemplate(tokenizer.facts);
    const conversation = { messages, tools: [], variables: {}, quote: (each: string) => each };
    return { ids, text: template.render(conversation) };
  } finally {
    tokenizer.close();
  }
}

/** A model that leaves as a Hugging Face folder and comes back is the same model, with the same tokenizer. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { openBackend } from "../../src/native/ggml/ggml.ts";
import { UNCOUNTED, writeStreamAtomic } from "../../src/platform/files.ts";
import { convert } from "../../src/workers/inspector/convert/convert.ts";
import { readVocabulary } from "../../src/workers/trainer/results/gguf_tokens.ts";
import { openHfFolder } from "../../src/workers/trainer/results/hf_folder.ts";
import { openMerged, writeMergedGguf } from "../../src/workers/trainer/results/merged_gguf.ts";
import { tempDir } from "../harness.ts";
import { filesIn } from "../hugging_face.ts";
import { makeModel } from "../models.ts";
import { randomAdapter } from "../results_kit.ts";
import { greedy } from "../serving/reference.ts";

const dir = tempDir();
const backend = openBackend(dir, { kind: "cpu", threads: 1 });
afterAll(() => {
  backend.close();
  rmSync(dir, { recursive: true, force: true });
});

async function vocabularyIn(base: string) {
  const opened = await openMerged(backend, { base, learned: { weights: () => undefined } });
  return readVocabulary(opened.header, opened.readSpan).finally(opened.close);
}

test.each(["llama", "qwen3"] as const)("%s", async (arch) => {
  const base = makeModel(dir, { arch, type: "F32", layers: 2, width: 64, heads: 4, kvHeads: 2, ff: 96 });
  const learned = { adapter: randomAdapter(base, { rank: 4, alpha: 4, rslora: false, parts: ["attn_q", "attn_k"] }) };
  const merged = join(dir, `${arch}-merged.gguf`);
  await writeMergedGguf(backend, { base, path: merged, type: "F32", learned });
  const folder = join(dir, `${arch}-folder`);
  mkdirSync(folder);
  const opened = await openHfFolder(backend, { base, learned, type: "F32", limit: 100_000 });
  for (const { name, content } of opened.entries)
    await writeStreamAtomic(join(folder, name), content(), { meter: UNCOUNTED });
  await opened.close();
  const again = join(dir, `${arch}-again.gguf`);
  await convert({ files: filesIn(folder), name: "again", into: again, quantize: null, dataDir: "", onProgress() {} });
  const prompt = Int32Array.from({ length: 12 }, (_, i) => 40 + i);
  expect(greedy(again, prompt, 8)).toEqual(greedy(merged, prompt, 8));
  expect(await vocabularyIn(again)).toMatchObject({ ...(await vocabularyIn(merged)), pad: expect.anything() });
});

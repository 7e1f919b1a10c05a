/** A standby process does work before a model is to be opened. */
import { afterAll, describe, expect, test } from "bun:test";
import { copyFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import type { Device } from "../../src/native/cuda/decode/kernels.ts";
import { openLlama } from "../../src/native/llama/symbols.ts";
import {
  deviceFor,
  forgetAhead,
  headerFor,
  prepareAhead,
  source,
  vocabularyFor,
} from "../../src/workers/serving/engine/backends/ahead.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";

const dir = tempDir();
const SIZE = { arch: "llama", type: "F16", width: 128, heads: 2, kvHeads: 1 } as const;
const model = makeModel(dir, SIZE);
const other = makeModel(dir, { ...SIZE, seed: 5, extraVocab: ["🙂"] });
const llama = openLlama(dir, { cuda: false });
const message = { type: "prepare", dataDir: dir, cuda: false, modelPath: null, card: false } as const;
const free = (vocabulary: Parameters<typeof llama.llama_model_free>[0]) => llama.llama_model_free(vocabulary);

let opened = 0;
let closed = 0;
const real = source.open;
source.open = () => {
  opened++;
  const nothing = { allocate: () => 1, fill() {}, free() {}, close: () => void closed++ };
  return nothing as unknown as Device;
};
afterAll(() => {
  source.open = real;
});

describe("a standby process", () => {
  test("gives the header, the vocabulary and the card that it has, each once", () => {
    prepareAhead({ ...message, modelPath: model, card: true });
    expect(opened).toBe(1);
    expect(headerFor(model)).toBe(headerFor(model)); // not parsed again
    const first = vocabularyFor(llama, model);
    const second = vocabularyFor(llama, model);
    expect(second).not.toBe(first); // the first one is in use
    const device = deviceFor({ dataDir: dir, gpus: [0] });
    expect([typeof device, opened]).toEqual(["object", 1]);
    deviceFor({ dataDir: dir, gpus: [0] });
    expect(opened).toBe(2);
    forgetAhead(llama);
    expect(closed).toBe(0); // the card is in use too
    for (const each of [first, second]) free(each);
  });

  test("reads a file that was replaced, and gives the card back if it is not used", () => {
    const path = join(dir, "later.gguf");
    copyFileSync(model, path);
    prepareAhead({ ...message, modelPath: path, card: true });
    const before = headerFor(path);
    copyFileSync(other, `${path}.new`);
    renameSync(`${path}.new`, path);
    expect(headerFor(path)).not.toBe(before);
    expect(headerFor(path).metadata.get("tokenizer.ggml.tokens")).not.toEqual(
      before.metadata.get("tokenizer.ggml.tokens"),
    );
    const vocabulary = vocabularyFor(llama, path);
    const tokens = (of: typeof vocabulary) => llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(of));
    const expected = vocabularyFor(llama, other);
    expect(tokens(vocabulary)).toBe(tokens(expected));
    forgetAhead(llama);
    expect(closed).toBe(1);
    for (const each of [vocabulary, expected]) free(each);
  });

  test("goes on without a model that it cannot read", () => {
    prepareAhead({ ...message, modelPath: join(dir, "nothing.gguf") });
    const vocabulary = vocabularyFor(llama, model);
    expect(headerFor(model).tensors.size).toBeGreaterThan(0);
    free(vocabulary);
  });
});

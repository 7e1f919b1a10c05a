import { afterAll, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { encoderReference } from "../../../../test/encoder_reference.ts";
import { type EncoderFolder, wordPieceJson, writeEncoderFolder } from "../../../../test/encoders.ts";
import { tempDir } from "../../../../test/harness.ts";
import { distance, HAS_MINILM, MINILM, MINILM_TEXTS } from "../../../../test/minilm.ts";
import { closeEngines, testEngine } from "../../../../test/serving/engines.ts";
import { CheckpointError } from "../../../lib/checkpoints/families.ts";
import { checkFolder, convert } from "./convert.ts";

afterAll(closeEngines);
const CONTEXT = 128;
const filesIn = (dir: string) =>
  Object.fromEntries(
    (readdirSync(dir, { recursive: true }) as string[])
      .filter((name) => /\.(json|safetensors)$/.test(name))
      .map((name) => [name, join(dir, name)]),
  );

async function converted(files: Record<string, string>, quantize: "Q8_0" | null = null) {
  await checkFolder(files);
  const into = join(tempDir(), "encoder.gguf");
  const { shape } = await convert({ files, name: "e", into, quantize, dataDir: tempDir(), onProgress: () => {} });
  return { shape, engine: await testEngine(into, { contextLength: 512 }) };
}

async function ofFolder(options: EncoderFolder) {
  const dir = tempDir();
  writeEncoderFolder(dir, options);
  return await converted(filesIn(dir));
}

const TEXT = "The KING runs, the quéén!";
const MODULES = ["Transformer", "Pooling", "Normalize"].map((name, idx) => ({
  idx,
  type: `sentence_transformers.${name}`,
}));
const pooled = (mode: string) => ({
  files: { "modules.json": MODULES, "1_Pooling/config.json": { word_embedding_dimension: 32, [mode]: true } },
});

test.each([
  ["no files of sentence-transformers", "mean", {}],
  ["a mean", "mean", pooled("pooling_mode_mean_tokens")],
  ["the first token", "cls", pooled("pooling_mode_cls_token")],
  ["the last token", "last", pooled("pooling_mode_lasttoken")],
] as const)("a BERT folder with %s becomes a file that computes the same", async (_, pooling, options) => {
  const { shape, engine } = await ofFolder(options);
  expect(shape).toMatchObject({ architecture: "bert", encoder: true, context_length: CONTEXT });
  const tokens = engine.tokenize(TEXT, { addBos: true, special: false });
  expect([...tokens]).toEqual([2, 8, 5, 14, 12, 17, 8, 6, 18, 3]);
  const [vector] = await engine.embed([tokens]);
  expect(distance(encoderReference(0, CONTEXT)[pooling]([...tokens]), vector!)).toBeLessThan(1e-3);
});

test("a BERT reranker keeps its pooler and its labels, and each text of a pair ends with the separator", async () => {
  const { engine } = await ofFolder({ ranks: true, labels: 3, config: { id2label: { 0: "a", 1: "b" } } });
  expect(engine.facts).toMatchObject({ isEncoder: true, pooling: "rank", pairs: { bos: 2, eos: 3, sep: -1 } });
  const prompt = [2, 5, 3, 6, 3];
  const [scores] = await engine.embed([Int32Array.from(prompt)]);
  expect(distance(encoderReference(3, CONTEXT).rank(prompt), scores!)).toBeLessThan(1e-3);
});

const one = (file: string, content: object) => ({ files: { [file]: content } });
const CASES: [string, RegExp, EncoderFolder][] = [
  ["another activation", /hidden_act is "relu", but only gelu/, { config: { hidden_act: "relu" } }],
  [
    "relative positions",
    /position_embedding_type is "relative_key"/,
    { config: { position_embedding_type: "relative_key" } },
  ],
  [
    "a step that is not known",
    /modules.json has a step "sentence_transformers.Dense"/,
    one("modules.json", [{ type: "sentence_transformers.Dense" }]),
  ],
  ["a pooling without its file", /1_Pooling\/config.json is missing/, one("modules.json", MODULES)],
  [
    "two poolings",
    /pooling_mode_mean_tokens, pooling_mode_cls_token/,
    one("1_Pooling/config.json", { pooling_mode_mean_tokens: true, pooling_mode_cls_token: true }),
  ],
  [
    "another pooling",
    /pooling_mode_max_tokens: one of mean/,
    one("1_Pooling/config.json", { pooling_mode_max_tokens: true }),
  ],
  [
    "BPE",
    /has a "BPE" tokenizer, but this architecture needs WordPiece/,
    one("tokenizer.json", wordPieceJson({ type: "BPE" })),
  ],
  [
    "another normalizer",
    /normalizes text with "NFC"/,
    one("tokenizer.json", wordPieceJson({}, { normalizer: { type: "NFC" } })),
  ],
  [
    "another splitter",
    /splits text with "Whitespace"/,
    one("tokenizer.json", wordPieceJson({}, { pre_tokenizer: { type: "Whitespace" } })),
  ],
  ["no separator", /has no token "<sep>"/, one("tokenizer_config.json", { sep_token: "<sep>" })],
  [
    "a missing tensor",
    /"embeddings.LayerNorm.bias" is missing/,
    { edit: (all) => all.filter(({ name }) => name !== "embeddings.LayerNorm.bias") },
  ],
  [
    "a tensor too many",
    /"encoder.layer.7.x", which this architecture does not have/,
    { edit: (all) => [...all, { ...all[4]!, name: "encoder.layer.7.x" }] },
  ],
  ["no layers", /0 layers/, { config: { num_hidden_layers: 0 } }],
];

test("a damaged or unsupported folder is refused with one sentence", async () => {
  for (const [what, sentence, options] of CASES) {
    const error = await ofFolder(options).then(
      () => undefined,
      (thrown) => thrown,
    );
    expect([what, error instanceof CheckpointError]).toEqual([what, true]);
    expect(error.message).toMatch(sentence);
  }
});

test.if(HAS_MINILM)(
  "MiniLM has the tokens and the embeddings of transformers",
  async () => {
    const names = ["config.json", "tokenizer.json", "model.fp16.safetensors"];
    const files = Object.fromEntries(names.map((name) => [name, join(MINILM, name)]));
    const { engine, shape } = await converted(files);
    expect(shape).toMatchObject({ quantization: "F16", layers: 6, embedding_length: 384, context_length: 512 });
    const prompts = MINILM_TEXTS.map(({ text }) => engine.tokenize(text, { addBos: true, special: false }));
    expect(prompts.map((prompt) => [...prompt])).toEqual(MINILM_TEXTS.map(({ tokens }) => tokens));
    const vectors = await engine.embed(prompts);
    for (const [i, { vector }] of MINILM_TEXTS.entries()) expect(distance(vector, vectors[i]!)).toBeLessThan(1e-3);
  },
  60_000,
);

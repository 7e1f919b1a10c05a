/** llama.cpp tokenizes with the written file as the tokenizer file itself demands. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import expected from "../../../../test/fixtures/tokenized.json";
import { tempDir } from "../../../../test/harness.ts";
import { filesIn, writeFolder } from "../../../../test/hugging_face.ts";
import { inOrder, TEXTS, tokenizers } from "../../../../test/tokenizers.ts";
import { loadModel } from "../../../native/llama/load.ts";
import { openLlama } from "../../../native/llama/symbols.ts";
import { parseSentencepiece, vocabularyOfSentencepiece } from "../../checkpoints/tokenizer/sentencepiece.ts";
import { TOKEN } from "../../checkpoints/tokenizer/vocabulary.ts";
import { Vocab } from "../../serving/engine/vocab.ts";
import { convert } from "./convert.ts";

// `expected` was made by another implementation, @huggingface/tokenizers 0.2.0.
const llama = openLlama(tempDir(), { cuda: false });

for (const [name, json] of Object.entries(tokenizers()))
  test(`${name}: tokens of multilingual texts`, async () => {
    const found = await tokenized({ "tokenizer.json": JSON.stringify(json) });
    expect(found).toEqual(expected[name as keyof typeof expected]);
  });

test("a tokenizer.model gives the same tokens as the tokenizer.json made of it", async () => {
  const json = tokenizers()["llama-2"] as { model: { vocab: Record<string, number>; merges: [string, string][] } };
  const found = await tokenized({ "tokenizer.json": null, "tokenizer.model": sentencepieceOf(json.model) });
  expect(found).toEqual(expected["llama-2"]);
});

test("a byte order mark is a token of its own, as in Llama 2", () => {
  const { pieces } = parseSentencepiece(message(1, piece("\ufeff", -1, 1)));
  expect(pieces).toEqual([{ text: "\ufeff", score: -1, type: TOKEN.normal }]);
});

test("a unigram tokenizer is refused", () => {
  const bytes = Buffer.concat([message(1, piece("a", 0, 1)), message(2, Buffer.from([0x18, 1]))]);
  expect(parseSentencepiece(bytes).pieces).toEqual([{ text: "a", score: 0, type: TOKEN.normal }]);
  expect(() => vocabularyOfSentencepiece(bytes, 4, [])).toThrow("unigram");
});

async function tokenized(files: Record<string, string | Uint8Array | null>): Promise<number[][]> {
  const dir = tempDir();
  const rows = 640;
  writeFolder(dir, {
    files: { "tokenizer_config.json": JSON.stringify({ bos_token: "<s>", eos_token: "</s>" }), ...files },
    edit: (all) =>
      all.map((each) =>
        /embed_tokens|lm_head/.test(each.name)
          ? { ...each, shape: [rows, 64], bytes: new Uint8Array(rows * 64 * 4) }
          : each,
      ),
  });
  const into = join(tempDir(), "model.gguf");
  await convert({ files: filesIn(dir), name: "x", into, quantize: null, onProgress: () => {}, dataDir: "" });
  const model = loadModel(llama, { path: into, devices: [], repack: false, vocabOnly: true });
  try {
    const vocab = new Vocab(llama, model);
    return TEXTS.map((text) => [...vocab.tokenize(text, { addBos: false, special: true })]);
  } finally {
    llama.llama_model_free(model);
  }
}

/** The protobuf message of SentencePiece. */
function sentencepieceOf({ vocab, merges }: { vocab: Record<string, number>; merges: [string, string][] }): Uint8Array {
  const rank = new Map<string, number>();
  for (const [i, pair] of merges.entries()) if (!rank.has(pair.join(""))) rank.set(pair.join(""), i);
  const pieces = inOrder(vocab).map((text) => {
    const type =
      text === "<unk>"
        ? TOKEN.unknown
        : /^<\/?s>$/.test(text)
          ? TOKEN.control
          : /^<0x..>$/.test(text)
            ? TOKEN.byte
            : TOKEN.normal;
    return message(1, piece(text, -(rank.get(text) ?? 1e6), type));
  });
  return Buffer.concat([...pieces, message(2, Buffer.from([0x18, 2])), message(3, Buffer.from([0x18, 1]))]);
}

function piece(text: string, score: number, type: number): Buffer {
  const float = Buffer.alloc(5);
  float[0] = (2 << 3) | 5;
  float.writeFloatLE(score, 1);
  return Buffer.concat([message(1, Buffer.from(text)), float, Buffer.from([3 << 3, type])]);
}

/** A field that holds bytes; all of them are shorter than 16384. */
function message(field: number, bytes: Buffer): Buffer {
  const length = bytes.byteLength;
  const size = length < 128 ? [length] : [(length & 0x7f) | 0x80, length >> 7];
  return Buffer.concat([Buffer.from([(field << 3) | 2, ...size]), bytes]);
}

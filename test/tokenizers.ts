/** Tokenizers of every supported kind, learned from a few multilingual texts without any rule for splitting. */
import { tokenizerJson } from "./hugging_face.ts";

export const TEXTS = [
  "hello the world, hello the end",
  "Hello WORLD, it's 12345 o'clock!\n\n  ok\t\tthere",
  "Grüße aus Köln: naïve café",
  "こんにちは世界 你好，世界！",
  "Привет, мир! 100 000 рублей",
  "مرحبا بالعالم",
  "👩‍🚀 emoji 🚀🚀 don't, DON'T",
  "a   b \n \n c\r\nd   ",
  "camelCase HTTPServer i18n/l10n, 2024-11-16",
  "हिन्दी टेक्स्ट ๑๒๓",
  "<s>hi</s><|im_end|>",
];

const C = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const REST = String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const SLASHES = String.raw` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const UPPER = String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`;
const LOWER = String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`;
const OTHER = String.raw`[^\r\n\p{L}\p{N}]?`;

const REGEXES = {
  "llama-3": String.raw`${C}|${OTHER}\p{L}+|\p{N}{1,3}|${REST}`,
  qwen: String.raw`${C}|${OTHER}\p{L}+|\p{N}|${REST}`,
  "gpt-4o": String.raw`${OTHER}${UPPER}*${LOWER}+${C}?|${OTHER}${UPPER}+${LOWER}*${C}?|\p{N}{1,3}|${SLASHES}`,
  tekken: String.raw`${OTHER}${UPPER}*${LOWER}+|${OTHER}${UPPER}+${LOWER}*|\p{N}|${SLASHES}`,
};
const MERGES = 160;

export function tokenizers(): Record<string, object> {
  const base = tokenizerJson();
  const letters = inOrder(base.model.vocab).slice(0, 256);
  const bytes = TEXTS.map((text) => Array.from(Buffer.from(text), (byte) => letters[byte] as string));
  const model = learn(letters, bytes);
  const added_tokens = ["<s>", "</s>", "<|im_end|>"].map((content, i) => ({
    id: Object.keys(model.vocab).length + i,
    content,
    special: true,
    normalized: false,
  }));
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, use_regex: true };
  const common = { ...base, post_processor: null, normalizer: null, added_tokens, model: { type: "BPE", ...model } };
  const split = (regex: string) => ({ ...common, pre_tokenizer: tokenizerJson(regex).pre_tokenizer });
  return {
    ...Object.fromEntries(Object.entries(REGEXES).map(([name, regex]) => [name, split(regex)])),
    "gpt-2": { ...common, pre_tokenizer: byteLevel },
    smollm: {
      ...common,
      pre_tokenizer: { type: "Sequence", pretokenizers: [{ type: "Digits", individual_digits: true }, byteLevel] },
    },
    "llama-2": sentencepiece(true),
    gemma: sentencepiece(false),
  };
}

/** Tokens by their ids: an object has keys such as "1" first. */
export const inOrder = (vocab: Record<string, number>): string[] =>
  Object.entries(vocab)
    .sort(([, a], [, b]) => a - b)
    .map(([token]) => token);

/** BPE with byte fallback, as converted from SentencePiece. */
function sentencepiece(prefix: boolean) {
  const special = ["<unk>", "<s>", "</s>"];
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, "0")}>`);
  const texts = TEXTS.slice(0, -1).map((text) => [...text.replaceAll(" ", "▁")]);
  const known = [...new Set(texts.flat())].filter((letter) => !/[\p{So}\p{Mn}\t]/u.test(letter)); // the others fall back
  const { vocab, merges } = learn([...special, ...bytes, ...known], texts);
  const space = { type: "Replace", pattern: { String: " " }, content: "▁" };
  return {
    version: "1.0",
    added_tokens: special.map((content, id) => ({ id, content, special: true, normalized: false })),
    normalizer: { type: "Sequence", normalizers: prefix ? [{ type: "Prepend", prepend: "▁" }, space] : [space] },
    pre_tokenizer: null,
    post_processor: null,
    decoder: null,
    model: { type: "BPE", unk_token: "<unk>", fuse_unk: true, byte_fallback: true, vocab, merges },
  };
}

/** Merges the most frequent pair again and again. Pairs may cross any boundary, so that only the rules keep them apart. */
function learn(letters: readonly string[], texts: readonly string[][]) {
  const tokens = [...letters];
  const merges: [string, string][] = [];
  let words = texts.map((text) => text.filter((letter) => letters.includes(letter)));
  while (merges.length < MERGES) {
    const counts = new Map<string, number>();
    for (const word of words)
      for (let i = 1; i < word.length; i++) {
        const pair = `${word[i - 1]}\u0001${word[i]}`;
        counts.set(pair, (counts.get(pair) ?? 0) + 1);
      }
    const best = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a))[0];
    const [left = "", right = ""] = best.split("\u0001");
    merges.push([left, right]);
    if (!tokens.includes(left + right)) tokens.push(left + right);
    words = words.map((word) => {
      const out: string[] = [];
      for (const each of word) {
        if (out.at(-1) === left && each === right) out[out.length - 1] = left + right;
        else out.push(each);
      }
      return out;
    });
  }
  return { vocab: Object.fromEntries(tokens.map((token, id) => [token, id])), merges };
}

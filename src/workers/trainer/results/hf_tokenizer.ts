/**
 * tokenizer.json and tokenizer_config.json from the vocabulary of a GGUF file. Every token stands in the model's vocabulary
 * with its id, also the special ones: a reader then keeps the ids.
 */
import { PATTERNS } from "../../checkpoints/tokenizer/pre.ts";
import { WorkerError } from "../../protocol.ts";
import { TOKEN, type Vocabulary } from "./gguf_tokens.ts";
import { OTHER_VARIANT } from "./hf_weights.ts";

const byteLevel = (use_regex: boolean) => ({
  type: "ByteLevel",
  add_prefix_space: false,
  trim_offsets: true,
  use_regex,
});
const split = (Regex: string) => ({
  type: "Sequence",
  pretokenizers: [{ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false }, byteLevel(false)],
});
const digitsFirst = { type: "Sequence", pretokenizers: [{ type: "Digits", individual_digits: true }, byteLevel(true)] };

/** `tokenizer.ggml.pre` → the pre-tokenizer of tokenizer.json. */
const PRE_TOKENIZERS: Readonly<Record<string, object>> = {
  ...Object.fromEntries(Object.entries(PATTERNS).map(([name, pattern]) => [name, split(pattern)])),
  "gpt-2": byteLevel(true),
  smollm: digitsFirst,
  refact: digitsFirst,
  starcoder: digitsFirst,
};

export function tokenizerJson(vocabulary: Vocabulary): object {
  const { tokens, types } = vocabulary;
  const special = (id: number) => types[id] === TOKEN.control || types[id] === TOKEN.unknown;
  const added_tokens = tokens.flatMap((content, id) =>
    special(id) || types[id] === TOKEN.userDefined
      ? [{ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: special(id) }]
      : [],
  );
  const parts = vocabulary.model === "llama" ? sentencepiece(vocabulary) : bpe(vocabulary);
  return { version: "1.0", truncation: null, padding: null, added_tokens, ...parts };
}

const vocabOf = (tokens: readonly string[]) => Object.fromEntries(tokens.map((token, id) => [token, id]));

function bpe(vocabulary: Vocabulary): object {
  const { tokens, merges, pre, model } = vocabulary;
  const preTokenizer = model === "gpt2" ? PRE_TOKENIZERS[pre] : undefined;
  if (!preTokenizer)
    throw new WorkerError(
      "config",
      `This model's tokenizer (${model} ${pre}) has no Hugging Face form here. Known: llama, ${Object.keys(PRE_TOKENIZERS).join(", ")}${OTHER_VARIANT}`,
    );
  return {
    normalizer: pre === "qwen2" || pre === "qwen35" ? { type: "NFC" } : null,
    pre_tokenizer: preTokenizer,
    post_processor: postProcessor(vocabulary, byteLevel(false)),
    decoder: byteLevel(false),
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: pre === "llama-bpe" || pre === "llama3",
      vocab: vocabOf(tokens),
      merges: merges.map(pairOf),
    },
  };
}

/** A token may itself contain the separator, but never begins with it. */
function pairOf(merge: string): [string, string] {
  const at = merge.indexOf(" ", 1);
  return [merge.slice(0, at), merge.slice(at + 1)];
}

/** Sentencepiece's BPE: bytes stand in for unknown characters. */
function sentencepiece(vocabulary: Vocabulary): object {
  const { tokens, unknown, addsSpace } = vocabulary;
  const spaces = { type: "Replace", pattern: { String: " " }, content: "▁" };
  const decoders = [
    { type: "Replace", pattern: { String: "▁" }, content: " " },
    { type: "ByteFallback" },
    { type: "Fuse" },
    ...(addsSpace ? [{ type: "Strip", content: " ", start: 1, stop: 0 }] : []),
  ];
  return {
    normalizer: { type: "Sequence", normalizers: [...(addsSpace ? [{ type: "Prepend", prepend: "▁" }] : []), spaces] },
    pre_tokenizer: null,
    post_processor: postProcessor(vocabulary, null),
    decoder: { type: "Sequence", decoders },
    model: {
      type: "BPE",
      dropout: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      unk_token: unknown === null ? null : (tokens[unknown] ?? null),
      fuse_unk: true,
      byte_fallback: true,
      vocab: vocabOf(tokens),
      merges: mergesFromScores(vocabulary),
    },
  };
}

/** Sentencepiece joins the pair whose result has the best score; BPE takes the first of a list. */
function mergesFromScores({ tokens, types, scores }: Vocabulary): [string, string][] {
  const ids = new Map(tokens.flatMap((token, id) => (types[id] === TOKEN.normal ? [[token, id] as const] : [])));
  const merges: { left: string; right: string; score: number; order: number }[] = [];
  for (const [token, id] of ids) {
    const letters = [...token];
    const pairs: { left: string; right: string }[] = [];
    for (let at = 1; at < letters.length; at++) {
      const [left, right] = [letters.slice(0, at).join(""), letters.slice(at).join("")];
      if (ids.has(left) && ids.has(right)) pairs.push({ left, right });
    }
    pairs.sort((a, b) => ids.get(a.left)! - ids.get(b.left)! || ids.get(a.right)! - ids.get(b.right)!);
    for (const pair of pairs) merges.push({ ...pair, score: scores[id] ?? 0, order: merges.length });
  }
  return merges.sort((a, b) => b.score - a.score || a.order - b.order).map(({ left, right }) => [left, right]);
}

function postProcessor({ tokens, bos, addsBos }: Vocabulary, plain: object | null): object | null {
  const token = bos === null ? undefined : tokens[bos];
  if (!addsBos || token === undefined) return plain;
  const first = { SpecialToken: { id: token, type_id: 0 } };
  const sequence = (id: string, type_id: number) => ({ Sequence: { id, type_id } });
  const template = {
    type: "TemplateProcessing",
    single: [first, sequence("A", 0)],
    pair: [first, sequence("A", 0), { SpecialToken: { id: token, type_id: 1 } }, sequence("B", 1)],
    special_tokens: { [token]: { id: token, ids: [bos], tokens: [token] } },
  };
  return plain === null ? template : { type: "Sequence", processors: [plain, template] };
}

export function tokenizerConfig(vocabulary: Vocabulary, contextLength: number): object {
  const { tokens, bos, eos, pad, unknown, addsBos, chatTemplate } = vocabulary;
  const name = (id: number | null | undefined) => (id === null || id === undefined ? null : (tokens[id] ?? null));
  return {
    tokenizer_class: "PreTrainedTokenizerFast",
    model_max_length: contextLength,
    clean_up_tokenization_spaces: false,
    add_bos_token: addsBos,
    bos_token: name(bos),
    eos_token: name(eos[0]),
    pad_token: name(pad) ?? name(eos[0]),
    unk_token: name(unknown),
    ...(chatTemplate === null ? {} : { chat_template: chatTemplate }),
  };
}

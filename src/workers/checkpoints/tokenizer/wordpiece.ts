/** tokenizer.json with WordPiece → the tokenizer of GGUF, whose words begin with ▁ where WordPiece marks the others with ##. */

import { CheckpointError } from "../../../lib/checkpoints/families.ts";
import { type Metadata, type NewValue, textValue, uint32Value } from "../../../lib/gguf/write.ts";
import { isObject } from "../../../lib/json/object.ts";
import { addedTokens } from "./json.ts";
import { type AddedToken, createTables, shown, TOKEN } from "./vocabulary.ts";

type Json = Readonly<Record<string, unknown>>;
const object = (value: unknown): Json => (isObject(value) ? (value as Json) : {});

const MARK = "##";
/** Key in GGUF → field of tokenizer_config.json and the usual name. */
const SPECIALS = [
  ["bos", "cls_token", "[CLS]"],
  ["seperator", "sep_token", "[SEP]"],
  ["unknown", "unk_token", "[UNK]"],
  ["padding", "pad_token", "[PAD]"],
  ["mask", "mask_token", "[MASK]"],
] as const;

type Files = { tokenizer: unknown; tokenizerConfig: unknown };

/** `ends`: every text of a pair ends with the separator, as rerankers are trained. llama.cpp would leave out the last. */
export function wordPieceMetadata(files: Files, rows: number, more: readonly AddedToken[], ends: boolean): Metadata {
  const { model, normalizer, pre_tokenizer: pre } = object(files.tokenizer);
  const { type, vocab, continuing_subword_prefix: mark = MARK } = object(model);
  if (type !== "WordPiece" || typeof vocab !== "object" || vocab === null || mark !== MARK)
    throw new CheckpointError(
      `tokenizer.json has a ${shown(String(type ?? "nameless"))} tokenizer, but this architecture needs WordPiece`,
    );
  const splits = object(pre).type;
  if (splits !== "BertPreTokenizer") throw unsupported("splits", splits);
  const tables = createTables(rows);
  for (const [text, id] of Object.entries(vocab)) {
    if (typeof id !== "number") throw new CheckpointError(`tokenizer.json: the id of ${shown(text)} is not a number`);
    tables.put(id, text, TOKEN.normal);
  }
  const added = [...addedTokens(files.tokenizer), ...more];
  tables.addAll(added);
  const all = new Map<string, NewValue>([
    ["tokenizer.ggml.model", textValue("bert")],
    ["tokenizer.ggml.pre", textValue("default")],
  ]);
  for (const [key, field, name] of SPECIALS) {
    const token = object(files.tokenizerConfig)[field];
    const text = typeof token === "string" ? token : (object(token).content ?? name);
    const id = tables.ids.get(String(text));
    if (id !== undefined) all.set(`tokenizer.ggml.${key}_token_id`, uint32Value(id));
    else if (key !== "padding" && key !== "mask")
      throw new CheckpointError(`tokenizer.json has no token ${shown(String(text))}, which this architecture needs`);
  }
  if (ends) {
    const separator = all.get("tokenizer.ggml.seperator_token_id") as NewValue;
    all.set("tokenizer.ggml.eos_token_id", separator);
    all.set("tokenizer.ggml.add_eos_token", { type: "bool", value: true });
    all.set("tokenizer.ggml.add_sep_token", { type: "bool", value: false });
  }
  for (const [key, value] of normalizerOf(normalizer))
    all.set(`tokenizer.ggml.normalizer.${key}`, { type: "bool", value });
  const controls = new Set(added.map(({ id }) => id));
  const tokens = distinct(tables.finish().map((text, id) => (controls.has(id) ? text : spelled(text))));
  all.set("tokenizer.ggml.tokens", { type: "array", of: "string", values: tokens });
  all.set("tokenizer.ggml.token_type", { type: "array", of: "int32", values: tables.types });
  return all;
}

const spelled = (text: string) => (text.startsWith(MARK) ? text.slice(MARK.length) : `▁${text}`);

/** A token such as `##▁` would be spelled like another. Native code refuses that, and no text needs it. */
function distinct(tokens: readonly string[]): string[] {
  const seen = new Set<string>();
  return tokens.map((text, id) => {
    const name = text === "" || seen.has(text) ? `[unused-${id}]` : text;
    seen.add(name);
    return name;
  });
}

/** Accents are removed where letters become small, unless the file says otherwise. */
function normalizerOf(normalizer: unknown): [string, boolean][] {
  const { type, lowercase, strip_accents: strip, handle_chinese_chars: chinese = true } = object(normalizer);
  if (type !== "BertNormalizer" || chinese !== true) throw unsupported("normalizes", type);
  const isLower = lowercase !== false;
  return [
    ["lowercase", isLower],
    ["strip_accents", typeof strip === "boolean" ? strip : isLower],
  ];
}

const unsupported = (verb: string, how: unknown) =>
  new CheckpointError(`tokenizer.json ${verb} text with ${shown(String(how ?? "nothing"))}, which is not supported`);

/** tokenizer.json → vocabulary: byte-level BPE, and BPE with byte fallback as converted from SentencePiece. */

import { CheckpointError } from "../../../lib/checkpoints/families.ts";
import { isObject } from "../../../lib/json/object.ts";
import { preTokenizerName } from "./pre.ts";
import { type AddedToken, createTables, shown, TOKEN, type Vocabulary } from "./vocabulary.ts";

type Json = Readonly<Record<string, unknown>>;
const UNKNOWN_SCORE = -1e9; // tokens that no merge makes are never made by a merge here either
const SPACE = "▁";

export function vocabularyOfJson(file: unknown, rows: number, more: readonly AddedToken[] = []): Vocabulary {
  const { model, normalizer, pre_tokenizer: pre } = (isObject(file) ? file : {}) as Json;
  if (!isObject(model) || !isObject(model.vocab))
    throw new CheckpointError("tokenizer.json has no model with a vocab: it is not a BPE tokenizer");
  if (model.type !== undefined && model.type !== "BPE")
    throw new CheckpointError(`tokenizer.json has a ${shown(String(model.type))} tokenizer, but only BPE is supported`);
  const added = [...addedTokens(file), ...more];
  const tables = createTables(rows);
  const isSpm = model.byte_fallback === true;
  for (const [text, id] of Object.entries(model.vocab)) {
    if (typeof id !== "number") throw new CheckpointError(`tokenizer.json: the id of ${shown(text)} is not a number`);
    tables.put(id, text, isSpm ? spmType(text, model) : TOKEN.normal);
  }
  tables.addAll(added);
  const merges = mergesOf(model.merges);
  const whole = { tokens: tables.finish(), types: tables.types };
  if (!isSpm) {
    requireNormalizer(normalizer);
    return {
      model: "gpt2",
      pre: preTokenizerName(pre, model.ignore_merges === true),
      ...whole,
      merges: joined(merges),
    };
  }
  const { prefix } = spmRules(normalizer, pre);
  return {
    model: "llama",
    pre: "default",
    ...whole,
    scores: scoresOf(whole, tables.ids, merges),
    addSpacePrefix: prefix,
  };
}

export function addedTokens(file: unknown): AddedToken[] {
  const { added_tokens: list } = (isObject(file) ? file : {}) as Json;
  if (list === undefined) return [];
  if (!Array.isArray(list)) throw new CheckpointError("tokenizer.json: added_tokens is not a list");
  return list.map((each: unknown) => {
    const { id, content, special } = (isObject(each) ? each : {}) as Json;
    if (typeof id !== "number" || typeof content !== "string")
      throw new CheckpointError("tokenizer.json: an added token has no id or no content");
    return { id, content, special: special === true };
  });
}

function spmType(text: string, { unk_token: unknown }: Json): number {
  if (text === unknown) return TOKEN.unknown;
  return /^<0x[0-9A-F]{2}>$/.test(text) ? TOKEN.byte : TOKEN.normal;
}

type Merge = readonly [left: string, right: string];

/** Older files write a pair as one text with a space, newer ones as a list. */
function mergesOf(merges: unknown): Merge[] {
  if (!Array.isArray(merges)) throw new CheckpointError("tokenizer.json has no merges");
  return merges.map((each: unknown, i): Merge => {
    const pair = typeof each === "string" ? each.split(" ") : each;
    if (!Array.isArray(pair) || pair.length !== 2 || pair.some((part) => typeof part !== "string" || part === ""))
      throw new CheckpointError(`tokenizer.json: merge ${i} is not a pair of texts`);
    return [pair[0], pair[1]];
  });
}

/** GGUF writes a pair as one text. Byte-level tokens contain no space. */
const joined = (merges: readonly Merge[]): string[] =>
  merges.map(([left, right], i) => {
    if (left.includes(" ") || right.includes(" "))
      throw new CheckpointError(`tokenizer.json: merge ${i} contains a space, so it is not byte-level BPE`);
    return `${left} ${right}`;
  });

/** The first merge that makes a token decides its score: an earlier merge has a higher one. */
function scoresOf(
  { tokens, types }: Pick<Vocabulary, "tokens" | "types">,
  ids: ReadonlyMap<string, number>,
  merges: readonly Merge[],
): number[] {
  const scores: number[] = tokens.map((_, id) => (types[id] === TOKEN.normal ? UNKNOWN_SCORE : 0));
  const seen = new Set<number>();
  for (const [rank, [left, right]] of merges.entries()) {
    const id = ids.get(left + right);
    if (id === undefined)
      throw new CheckpointError(
        `tokenizer.json: merge ${rank} makes ${shown(left + right)}, which is not in the vocabulary`,
      );
    if (seen.has(id)) continue;
    seen.add(id);
    scores[id] = -rank;
  }
  return scores;
}

/** Unicode composition is part of some tokenizers, but GGUF cannot name it. Composed text is tokenized the same. */
function requireNormalizer(normalizer: unknown) {
  const { type, normalizers } = (isObject(normalizer) ? normalizer : {}) as Json;
  const list = type === "Sequence" && Array.isArray(normalizers) ? normalizers : [normalizer];
  for (const each of list) {
    const kind = isObject(each) ? each.type : undefined;
    if (kind !== undefined && kind !== "NFC")
      throw new CheckpointError(`tokenizer.json normalizes text with ${shown(String(kind))}, which is not supported`);
  }
}

function spmRules(normalizer: unknown, pre: unknown): { prefix: boolean } {
  const list = (rule: unknown, key: string): Json[] => {
    if (!isObject(rule)) return [];
    const inner = rule[key];
    return rule.type === "Sequence" && Array.isArray(inner) ? inner.filter(isObject) : [rule];
  };
  let [prefix, spaces] = [false, false];
  for (const each of list(normalizer, "normalizers")) {
    if (each.type === "Prepend" && each.prepend === SPACE) prefix = true;
    else if (each.type === "Replace" && (each.pattern as Json | undefined)?.String === " " && each.content === SPACE)
      spaces = true;
    else throw unsupported("normalizes", each);
  }
  for (const each of list(pre, "pretokenizers")) {
    if (each.type === "Metaspace") {
      spaces = true;
      prefix ||= each.prepend_scheme !== undefined ? each.prepend_scheme !== "never" : each.add_prefix_space !== false;
    } else if (each.type !== "Split" || (each.pattern as Json | undefined)?.String !== " ")
      throw unsupported("splits", each);
  }
  if (!spaces) throw new CheckpointError("tokenizer.json does not say how spaces are written, so it is not supported");
  return { prefix };
}

const unsupported = (verb: string, { type }: Json) =>
  new CheckpointError(`tokenizer.json ${verb} text with ${shown(String(type))}, which is not supported`);

/** The vocabulary of a GGUF file. The parser keeps no long arrays, so they are read from the file again. */
import { string } from "../../../lib/gguf/facts.ts";
import type { Header, Span } from "../../../lib/gguf/parse.ts";

export type ReadSpan = (span: Span) => Promise<Uint8Array>;

/** Values of `tokenizer.ggml.token_type`. */
export const TOKEN = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

export type Vocabulary = {
  /** `gpt2`: byte-level BPE. `llama`: sentencepiece with scores. */
  model: string;
  pre: string;
  tokens: readonly string[];
  types: readonly number[];
  scores: readonly number[];
  merges: readonly string[];
  bos: number | null;
  /** Ends a document or a turn; the first is the tokenizer's own. */
  eos: readonly number[];
  pad: number | null;
  unknown: number | null;
  addsBos: boolean;
  addsSpace: boolean;
  chatTemplate: string | null;
};

export async function readVocabulary(header: Header, read: ReadSpan): Promise<Vocabulary> {
  const key = (name: string) => `tokenizer.ggml.${name}`;
  const bytes = async (name: string) => {
    const span = header.spans.get(key(name));
    return span ? await read(span) : undefined;
  };
  const id = (name: string) => {
    const value = header.metadata.get(key(name))?.value;
    return typeof value === "number" ? value : null;
  };
  const flag = (name: string, fallback: boolean) => {
    const value = header.metadata.get(key(name))?.value;
    return typeof value === "boolean" ? value : fallback;
  };
  const model = string(header, key("model")) ?? "";
  const isSpm = model === "llama";
  const tokens = texts(await bytes("tokens"));
  const [types, scores] = [numbers(await bytes("token_type")), numbers(await bytes("scores"))];
  const ends = ["eos_token_id", "eot_token_id", "eom_token_id"].map(id).filter((each) => each !== null);
  return {
    model,
    pre: string(header, key("pre")) ?? "default",
    tokens,
    types: types.length === 0 ? tokens.map(() => TOKEN.normal) : types,
    scores,
    merges: texts(await bytes("merges")),
    bos: id("bos_token_id"),
    eos: [...new Set(ends)],
    pad: id("padding_token_id"),
    unknown: id("unknown_token_id") ?? (isSpm ? 0 : null),
    addsBos: flag("add_bos_token", isSpm),
    addsSpace: flag("add_space_prefix", isSpm),
    chatTemplate: string(header, "tokenizer.chat_template") ?? null,
  };
}

/** The type of the array and its length precede the items: 4 + 4 + 8 bytes. */
const ITEMS_AT = 16;
const lengthOf = (view: DataView) => Number(view.getBigUint64(8, true));
const viewOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

function texts(bytes: Uint8Array | undefined): string[] {
  if (!bytes) return [];
  const view = viewOf(bytes);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true }); // a byte order mark is a token
  let at = ITEMS_AT;
  return Array.from({ length: lengthOf(view) }, () => {
    const length = Number(view.getBigUint64(at, true));
    const text = decoder.decode(bytes.subarray(at + 8, at + 8 + length));
    at += 8 + length;
    return text;
  });
}

const FLOAT32 = 6; // number of the type in the format

/** Items of the types int32, uint32 and float32. */
function numbers(bytes: Uint8Array | undefined): number[] {
  if (!bytes) return [];
  const view = viewOf(bytes);
  const isFloat = view.getUint32(4, true) === FLOAT32;
  return Array.from({ length: lengthOf(view) }, (_, i) => {
    const at = ITEMS_AT + 4 * i;
    return isFloat ? view.getFloat32(at, true) : view.getInt32(at, true);
  });
}

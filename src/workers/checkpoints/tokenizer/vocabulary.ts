/** A tokenizer as GGUF stores it. */
import { CheckpointError } from "../../../lib/checkpoints/families.ts";

export const TOKEN = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

export type Vocabulary = {
  /** `tokenizer.ggml.model`: gpt2 is byte-level BPE, llama is SentencePiece. */
  model: "gpt2" | "llama";
  pre: string;
  tokens: string[];
  types: number[];
  /** SentencePiece merges the pair with the highest score. */
  scores?: number[];
  merges?: string[];
  addSpacePrefix?: boolean;
};

export type AddedToken = { id: number; content: string; special: boolean };

const MAX_TOKENS = 4 * 2 ** 20;

/** Text such as `<|im_end|>` is a control token, even where the file says that it is not special. */
const looksSpecial = (text: string) =>
  ["<pad>", "<mask>"].includes(text) ||
  /^<\|.*\|>$/su.test(text) ||
  /^<｜.*｜>$/su.test(text) ||
  /^<unused\d+>$/.test(text);

/** Fills the tables with one entry for each row of the embedding. Ids that no file names are unused. */
export function createTables(size: number) {
  if (!Number.isSafeInteger(size) || size < 1 || size > MAX_TOKENS)
    throw new CheckpointError(`The vocabulary has ${size} tokens. Expected 1 to ${MAX_TOKENS}`);
  const tokens: (string | undefined)[] = Array(size);
  const types: number[] = Array(size).fill(TOKEN.unused);
  const ids = new Map<string, number>();
  const put = (id: number, text: string, type: number) => {
    if (!Number.isSafeInteger(id) || id < 0 || id >= size)
      throw new CheckpointError(
        `The tokenizer has the token ${shown(text)} with the id ${id}, but the embedding has ${size} rows`,
      );
    const other = ids.get(text);
    if (other !== undefined && other !== id)
      throw new CheckpointError(`The tokenizer has the token ${shown(text)} twice, with the ids ${other} and ${id}`);
    const before = tokens[id];
    if (before !== undefined) ids.delete(before);
    tokens[id] = text;
    types[id] = type;
    ids.set(text, id);
  };
  return {
    put,
    types,
    ids,
    addAll(added: readonly AddedToken[]) {
      for (const { id, content, special } of added)
        put(id, content, special || looksSpecial(content) ? TOKEN.control : TOKEN.userDefined);
    },
    finish: (): string[] => Array.from(tokens, (text, id) => text ?? unusedName(id, ids)),
  };
}

/** Names must differ: native code rejects duplicates. */
function unusedName(id: number, ids: ReadonlyMap<string, number>): string {
  let name = `[PAD${id}]`;
  while (ids.has(name)) name += "_";
  return name;
}

export const shown = (text: string) => JSON.stringify(text.slice(0, 60));

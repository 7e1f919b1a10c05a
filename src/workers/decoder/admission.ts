/** Checks whether a sequence can ever be decoded. Pure. */
import { PAGE } from "../../native/cuda/decode/kernels.ts";
import { MOST_BIASES } from "./slot_memory.ts";
import type { Admission } from "./types.ts";

export type Room = { contextLength: number; pages: number; vocab: number };

/** Returns the tokens that the sequence needs at most. The last one is never read. Throws RangeError if it never fits. */
export function tokensOf({ prompt, maxTokens, drawing }: Admission, { contextLength, pages, vocab }: Room): number {
  const total = prompt.length - 1 + maxTokens;
  if (prompt.length === 0 || maxTokens < 1) throw new RangeError("A prompt has no tokens, or maxTokens is below 1");
  if (total > contextLength || Math.ceil(total / PAGE) > pages)
    throw new RangeError(`The prompt and its answer need ${total} tokens, but the context holds ${contextLength}`);
  if (drawing.logitBias.length > MOST_BIASES) throw new RangeError(`logit_bias has more than ${MOST_BIASES} tokens`);
  const isToken = (token: number) => token >= 0 && token < vocab;
  if (!prompt.every(isToken) || !drawing.logitBias.every(([token]) => isToken(token)))
    throw new RangeError("A token of the prompt or of logit_bias is not in the vocabulary");
  return total;
}

/**
 * Reads the images of prompts: their rows are decoded as a llama_batch of embeddings, which cannot have tokens. A batch
 * belongs to one sequence, and nothing is drawn from it.
 */
import { ptr } from "bun:ffi";
import type { Ptr } from "../../../native/ffi.ts";
import type { Llama } from "../../../native/llama/symbols.ts";
import type { Results } from "./backends/types.ts";
import type { Cache } from "./cache.ts";
import { urgentRank } from "./composer.ts";
import type { Pace } from "./pace.ts";
import type { Sequence } from "./sequence.ts";
import { injectFault } from "./thread/fault.ts";
import type { Pulse } from "./thread/pulse.ts";
import type { PromptRows } from "./types.ts";

export type RowReaderOptions = {
  llama: Llama;
  context: Ptr;
  cache: Cache;
  /** Owner of each slot. */
  owners: readonly (Sequence | null)[];
  batchTokens: number;
  pace: Pace;
  pulse: Pulse;
  results: Results;
};

/** `from`: rows of the image that are in the cache already. */
type NextRows = { image: PromptRows; from: number; count: number };

export class RowReader {
  readonly #options: RowReaderOptions;
  #isTurn = false;

  constructor(options: RowReaderOptions) {
    this.#options = options;
  }

  /** Decodes a part of one image and returns the code. Undefined: no image is next, or running sequences go first. */
  read(adapter: number): number | undefined {
    const { owners } = this.#options;
    this.#isTurn = !this.#isTurn; // running sequences get every other step
    const urgent = urgentRank(owners);
    const isNext = ({ adapter: by, submit }: Sequence) => by.key === adapter && submit.rank <= urgent;
    const sequences = owners.filter((owner) => owner !== null && isNext(owner)) as Sequence[];
    if (!this.#isTurn && sequences.some(({ next }) => next >= 0)) return undefined;
    for (const owner of sequences) {
      const rows = this.#next(owner);
      if (rows) return this.#decode(owner, rows);
    }
    return undefined;
  }

  /** Undefined: the sequence reads or writes tokens now. */
  #next({ submit, next, slot }: Sequence): NextRows | undefined {
    const { length } = this.#options.cache.slots[slot]!;
    if (next >= 0 || submit.prompt[length]! >= 0) return undefined;
    const image = submit.images.find(({ at, rows }) => length >= at && length < at + rows);
    if (!image) throw new Error("the prompt names an image that the request does not have");
    const from = length - image.at;
    return { image, from, count: Math.min(image.rows - from, this.#options.batchTokens) };
  }

  #decode(owner: Sequence, next: NextRows): number {
    const { llama, context, cache, owners, pace, pulse, results } = this.#options;
    for (const each of owners) if (each) each.before = cache.slots[each.slot]!.length;
    const { prompt } = owner.submit;
    const { usedAt } = cache.slots[owner.slot]!;
    for (let i = 0; i < next.count; i++) cache.append(owner.slot, prompt[owner.before + i]!, usedAt);
    results.read(next.count);
    pulse.begin(pace.expectedMs(next.count));
    const code = decodeRows(llama, context, owner.slot, next);
    llama.llama_synchronize(context);
    results.decoded();
    pulse.end(code === 0);
    return code;
  }
}

function decodeRows(llama: Llama, context: Ptr, slot: number, { image, from, count }: NextRows): number {
  injectFault(count);
  const width = image.embeddings.length / image.rows;
  const rows = image.embeddings.slice(from * width, (from + count) * width);
  const positions = Int32Array.from({ length: count }, (_, i) => image.at + from + i);
  const sequence = Int32Array.of(slot);
  const lists = new BigUint64Array(count).fill(BigInt(ptr(sequence)));
  const fields = [rows, positions, new Int32Array(count).fill(1), lists, new Int8Array(count)] as const;
  if (image.together) llama.llama_set_causal_attn(context, false);
  try {
    return llama.llama_decode_rows(context, count, ...fields);
  } finally {
    if (image.together) llama.llama_set_causal_attn(context, true);
  }
}

/** Composes the next batch: one token of every running sequence, and parts of the prompts that are being read. */
import { Batch } from "./batch.ts";
import type { Cache } from "./cache.ts";
import type { Pace } from "./pace.ts";
import type { Sequence } from "./sequence.ts";
import { fillers, promptBudget, promptShares } from "./slots.ts";
import type { SubmitMessage } from "./thread/messages.ts";

export type ComposerOptions = {
  cache: Cache;
  /** Owner of each slot. */
  owners: readonly (Sequence | null)[];
  pace: Pace;
  batchTokens: number;
  /** At most this many idle slots are decoded along between two working ones. */
  fillMost: number;
  /** Take every prompt token that fits: the batches must not depend on the clock. */
  steady: boolean;
  /** Decode guessed tokens along with the next token of a lone sequence. */
  guesses: boolean;
};

/** Returns how many tokens of the prompt come before the next image or its end. Rows have batches of their own. */
function tokensUntilImage({ prompt, images }: SubmitMessage, from: number): number {
  if (prompt[from]! < 0) return 0;
  return (images.find(({ at }) => at >= from)?.at ?? prompt.length) - from;
}

const NO_SHARES: ReadonlyMap<number, number> = new Map();
const FILLER = 0; // any token will do: its result is ignored

export class Composer {
  readonly batch: Batch;
  readonly #options: ComposerOptions;
  #fill: readonly number[] = []; // slots decoded along in the current batch
  #prompts = 0; // prompt tokens in the current batch
  #step = 0;

  constructor(options: ComposerOptions) {
    this.#options = options;
    this.batch = new Batch(options.batchTokens);
  }

  /** Fills the batch in the order of the slots: the library decodes only neighbours together. */
  compose(adapter: number): { prompts: number } {
    const { cache, owners } = this.#options;
    this.#step++;
    this.batch.clear();
    const { decoding, reading, mayFill } = this.#count(adapter);
    const batchTokens = this.batch.capacity - (mayFill ? owners.length - decoding : 0); // a longer batch aborts the process
    const load = { decoding, reading, batchTokens, promptMsPerToken: this.#options.pace.promptMsPerToken };
    const budget = this.#options.steady ? batchTokens - decoding : promptBudget(load);
    const share = reading === 0 ? NO_SHARES : this.#shares(adapter, budget);
    const works = (owner: Sequence | null) =>
      owner !== null && owner.adapter.key === adapter && (owner.next >= 0 || (share.get(owner.id) ?? 0) > 0);
    this.#fill = mayFill ? fillers(owners.map(works), this.#options.fillMost) : [];
    const filling = new Set(this.#fill);
    this.#prompts = 0;
    const isAlone = decoding === 1 && reading === 0;
    for (let at = 0; at < owners.length; at++) {
      const owner = owners[at] ?? null;
      if (owner !== null) {
        owner.row = -1;
        owner.guesses = 0;
        owner.before = cache.slots[at]!.length;
      }
      if (owner !== null && works(owner)) {
        if (owner.next >= 0) this.#feedNext(owner, isAlone);
        else this.#prompts += this.#feedPrompt(owner, share.get(owner.id) ?? 0);
      } else if (filling.has(at)) this.batch.add(FILLER, cache.spare(at), at, false);
    }
    return { prompts: this.#prompts };
  }

  /** Called after the batch was decoded, with the time that it took. */
  decoded(ms: number) {
    for (const at of this.#fill) this.#options.cache.unspare(at);
    this.#options.pace.decoded({ tokens: this.batch.length, prompts: this.#prompts, ms });
  }

  #count(adapter: number): { decoding: number; reading: number; mayFill: boolean } {
    let decoding = 0;
    let reading = 0;
    for (const owner of this.#options.owners) {
      if (owner === null || owner.adapter.key !== adapter) continue;
      if (owner.next >= 0) decoding++;
      else reading++;
    }
    return { decoding, reading, mayFill: decoding + reading >= 2 && this.#options.fillMost > 0 };
  }

  /** Returns for each sequence how many tokens of its prompt the next batch takes. */
  #shares(adapter: number, budget: number): Map<number, number> {
    const { cache, owners } = this.#options;
    const reading = owners.filter((o) => o !== null && o.next < 0 && o.adapter.key === adapter) as Sequence[];
    reading.sort((a, b) => a.id - b.id);
    const left = reading.map(({ submit, slot }) => tokensUntilImage(submit, cache.slots[slot]!.length));
    const shares = promptShares(left, budget);
    return new Map(reading.map((sequence, i) => [sequence.id, shares[i]!]));
  }

  /** Guesses pay only where a row costs less than a step: in a batch of one sequence. */
  #feedNext(owner: Sequence, isAlone: boolean) {
    const { cache, guesses } = this.#options;
    const { tokens, length } = cache.slots[owner.slot]!;
    const most = guesses && isAlone ? Math.min(owner.left - 1, tokens.length - length - 1) : 0;
    const guessed = owner.guesser.guess({ tokens, length, next: owner.next }, most);
    owner.row = this.#append(owner.next, owner.slot, true);
    for (const token of guessed) this.#append(token, owner.slot, true);
    owner.guesses = guessed.length;
  }

  #feedPrompt(owner: Sequence, count: number): number {
    const { prompt } = owner.submit;
    const slot = this.#options.cache.slots[owner.slot]!;
    for (let i = 0; i < count; i++) {
      const last = slot.length === prompt.length - 1;
      const row = this.#append(prompt[slot.length]!, owner.slot, last);
      if (last) owner.row = row;
    }
    return count;
  }

  #append(token: number, at: number, wantsOutput: boolean): number {
    return this.batch.add(token, this.#options.cache.append(at, token, this.#step), at, wantsOutput);
  }
}

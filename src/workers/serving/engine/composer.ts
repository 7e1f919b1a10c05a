/** Composes the next batch: one token of every running sequence, and parts of the prompts that are being read. */
import { Batch } from "./batch.ts";
import { completing, promptRows, type Shapes, Turns } from "./batch_shapes.ts";
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
  /** Set if a token must not depend on what is decoded beside it. */
  shapes: Shapes | null;
};

/** Returns how many tokens of the prompt come before the next image or its end. Rows have batches of their own. */
function tokensUntilImage({ prompt, images }: SubmitMessage, from: number): number {
  if (prompt[from]! < 0) return 0;
  return (images.find(({ at }) => at >= from)?.at ?? prompt.length) - from;
}

/**
 * The rank of the most urgent prompt that is being read. Sequences with lower priorities pause meanwhile: people wait for the
 * first token.
 */
export function urgentRank(owners: readonly (Sequence | null)[]): number {
  let rank = Number.POSITIVE_INFINITY;
  for (const owner of owners) if (owner !== null && owner.next < 0) rank = Math.min(rank, owner.submit.rank);
  return rank;
}

const NO_SHARES: ReadonlyMap<number, number> = new Map();
const FILLER = 0; // any token will do: its result is ignored

export class Composer {
  readonly batch: Batch;
  readonly #options: ComposerOptions;
  readonly #turns: Turns | null;
  readonly #group: number;
  #fill: readonly number[] = []; // slots with rows in the current batch that are removed again
  #prompts = 0; // prompt tokens in the current batch
  #step = 0;
  #urgent = Number.POSITIVE_INFINITY;

  constructor(options: ComposerOptions) {
    this.#options = options;
    this.#turns = options.shapes && new Turns(options.shapes);
    this.#group = options.shapes?.group ?? 1;
    this.batch = new Batch(options.batchTokens);
  }

  /** Fills the batch in the order of the slots: the library decodes only neighbours together. */
  compose(adapter: number): { prompts: number } {
    const { cache, owners } = this.#options;
    this.#urgent = urgentRank(owners);
    this.#step++;
    this.batch.clear();
    const { decoding, reading, mayFill } = this.#count(adapter);
    const batchTokens = this.batch.capacity - (mayFill ? owners.length - decoding : 0); // a longer batch aborts the process
    const load = { decoding, reading, batchTokens, promptMsPerToken: this.#options.pace.promptMsPerToken };
    const budget = this.#options.steady ? batchTokens - decoding : promptBudget(load);
    const turn = this.#turn(adapter);
    const share = reading === 0 ? NO_SHARES : this.#shares(adapter, budget, turn);
    const works = (owner: Sequence | null) =>
      owner !== null &&
      owner.submit.rank <= this.#urgent &&
      owner.adapter.key === adapter &&
      (turn?.has(owner.id) ?? true) &&
      (owner.next >= 0 || (share.get(owner.id) ?? 0) > 0);
    const fill = this.#fillers(owners.map(works), mayFill, share.size > 0);
    const filling = new Set(fill);
    this.#fill = fill;
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
        if (share.size > 0 && this.#completePrompt(at)) fill.push(at);
      } else if (filling.has(at)) this.batch.add(FILLER, cache.spare(at), at, this.#group > 1);
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
      if (owner === null || owner.adapter.key !== adapter || owner.submit.rank > this.#urgent) continue;
      if (owner.next >= 0) decoding++;
      else reading++;
    }
    return { decoding, reading, mayFill: decoding + reading >= 2 && this.#options.fillMost > 0 };
  }

  /** Returns the sequences of the next batch, or null for all. Rows of images have batches of their own. */
  #turn(adapter: number): ReadonlySet<number> | null {
    if (!this.#turns) return null;
    const { cache, owners } = this.#options;
    const readsImage = ({ next, submit, slot }: Sequence) =>
      next < 0 && tokensUntilImage(submit, cache.slots[slot]!.length) === 0;
    const candidates = owners.flatMap((owner) =>
      owner !== null && owner.adapter.key === adapter && owner.submit.rank <= this.#urgent && !readsImage(owner)
        ? [{ id: owner.id, slot: owner.slot, reads: owner.next < 0 }]
        : [],
    );
    return this.#turns.next(candidates);
  }

  /** Returns the idle slots to decode along. A prompt has its batch for itself if there are groups. */
  #fillers(working: readonly boolean[], mayFill: boolean, reads: boolean): number[] {
    const completed = this.#group === 1 || reads ? [] : completing(working, this.#group);
    if (!mayFill) return completed;
    const decoded = working.map((works, at) => works || completed.includes(at));
    return [...completed, ...fillers(decoded, this.#options.fillMost)];
  }

  /** Adds rows behind a part of a prompt until its group is whole. Returns true if there are such rows. */
  #completePrompt(at: number): boolean {
    const { length } = this.#options.cache.slots[at]!;
    const missing = (this.#group - (this.batch.length % this.#group)) % this.#group;
    for (let i = 0; i < missing; i++) this.batch.add(FILLER, length + i, at, false);
    return missing > 0;
  }

  /** Returns for each sequence how many tokens of its prompt the next batch takes. */
  #shares(adapter: number, most: number, turn: ReadonlySet<number> | null): Map<number, number> {
    const { cache, owners, shapes } = this.#options;
    const budget = shapes ? promptRows(most, shapes) : most;
    const reading = owners.filter(
      (o) =>
        o !== null &&
        o.next < 0 &&
        o.adapter.key === adapter &&
        o.submit.rank <= this.#urgent &&
        (turn?.has(o.id) ?? true),
    ) as Sequence[];
    reading.sort((a, b) => a.id - b.id);
    const left = reading.map(({ submit, slot }) => tokensUntilImage(submit, cache.slots[slot]!.length));
    const shares = promptShares(left, budget);
    return new Map(reading.map((sequence, i) => [sequence.id, shares[i]!]));
  }

  /** Guesses pay only where a row costs less than a step: in a batch of one sequence. */
  #feedNext(owner: Sequence, isAlone: boolean) {
    const { cache, guesses } = this.#options;
    const { tokens, length } = cache.slots[owner.slot]!;
    const most = guesses && isAlone && this.#group === 1 ? Math.min(owner.left - 1, tokens.length - length - 1) : 0;
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

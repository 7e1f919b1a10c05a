/**
 * How batches of the library are cut on a CPU, so that the bits of a token do not depend on what is decoded beside it. The
 * library promises nothing: test/serving/batch_invariance.test.ts measures its embedded version again.
 *
 * - A lone row of floats is summed in another order than rows together. Rows of most quantized types are multiplied by
 *   four, and the rest of a batch in another way. So a batch has whole groups of rows.
 * - From 64 rows of one sequence on, attention sums in another order. On some processors, products do so at 8 rows.
 * - Sequences with different numbers of rows are decoded in several pieces of unknown sizes. So prompts are read
 *   one at a time, and running sequences are decoded without them.
 */
export type Shapes = {
  /** Rows of a call are a multiple of this. Neighbouring slots are a group. */
  group: 1 | 2 | 4;
  /** The most rows of one prompt in a call. */
  rows: number;
  /** The most groups of running sequences in a call. */
  groups: number;
};

export type WeightKinds = "floats" | "Q8_0" | "others";

const GROUPS = { floats: 2, Q8_0: 1, others: 4 } as const;
const LARGEST = 4;

/** `steadyRows` of the platform: a multiple of all groups, or one group, which is then the largest. */
export const shapesOf = (steadyRows: number, kinds: WeightKinds): Shapes =>
  steadyRows > LARGEST
    ? { group: GROUPS[kinds], rows: steadyRows, groups: Number.POSITIVE_INFINITY }
    : { group: LARGEST, rows: LARGEST, groups: 1 };

/** Room that a sequence needs beyond its tokens: rows that fill its last group. */
export const spareTokens = (shapes: Shapes | null) => (shapes?.group ?? 1) - 1;

/** Slots in whole groups. */
export const slotsFor = (parallel: number, shapes: Shapes | null): number => {
  const group = shapes?.group ?? 1;
  return Math.ceil(parallel / group) * group;
};

/** Tokens of a prompt in one call. */
export const promptRows = (budget: number, { group, rows }: Shapes): number =>
  Math.max(group, Math.floor(Math.min(budget, rows) / group) * group);

/** Returns the slots that complete the groups of working ones. */
export function completing(working: readonly boolean[], group: number): number[] {
  const begin = (at: number) => at - (at % group);
  return working.flatMap((works, at) =>
    !works && working.slice(begin(at), begin(at) + group).includes(true) ? [at] : [],
  );
}

/** A sequence that a call may compute. `reads`: a part of its prompt, otherwise its next token. */
export type Candidate = { id: number; slot: number; reads: boolean };

/** Takes turns: one prompt, then groups of running sequences. */
export class Turns {
  readonly #shapes: Shapes;
  #wasPrompt = false;
  #prompt = -1;
  #group = -1;

  constructor(shapes: Shapes) {
    this.#shapes = shapes;
  }

  /** Returns the sequences of the next call. */
  next(candidates: readonly Candidate[]): ReadonlySet<number> {
    const prompts = candidates.filter(({ reads }) => reads).map(({ id }) => id);
    const running = candidates.filter(({ reads }) => !reads);
    this.#wasPrompt = prompts.length > 0 && (running.length === 0 || !this.#wasPrompt);
    if (this.#wasPrompt) {
      this.#prompt = after(prompts, this.#prompt)[0]!;
      return new Set([this.#prompt]);
    }
    const { group, groups } = this.#shapes;
    const groupOf = ({ slot }: Candidate) => Math.floor(slot / group);
    const chosen = after([...new Set(running.map(groupOf))], this.#group).slice(0, groups);
    this.#group = chosen.at(-1) ?? -1;
    return new Set(running.filter((each) => chosen.includes(groupOf(each))).map(({ id }) => id));
  }
}

/** The numbers above `last` in their order, then the others. */
const after = (numbers: readonly number[], last: number): number[] => {
  const sorted = numbers.toSorted((a, b) => a - b);
  return [...sorted.filter((each) => each > last), ...sorted.filter((each) => each <= last)];
};

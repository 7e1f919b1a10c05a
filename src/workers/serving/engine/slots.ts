/**
 * Assigns sequences to slots and splits prompts over batches. Pure: no native call, no clock. A slot is one sequence of
 * the native cache. Its content stays after its owner ends, for a later prompt that begins alike.
 */

export type Slot = {
  /** The tokens whose keys and values the cache holds: `tokens[0, length)`. */
  tokens: Int32Array;
  length: number;
  /** The adapter that computed them; 0 = none. */
  adapter: number;
  busy: boolean;
  /** The step of the last use; 0 = never. */
  usedAt: number;
  /** Tokens at the beginning whose blocks are on the disk. */
  kept: number;
  /** Counts the prompts that the slot was taken for. */
  stamp: number;
};

/** Take `slot` and keep its first `keep` tokens. They are there already, or in slot `from`. */
export type Placement = { slot: number; from: number; keep: number };

export type PlaceRules = {
  /** A copy between slots moves the whole cache of one. Below this many tokens it is cheaper to compute them. */
  copyMin: number;
  /** False for models whose state cannot be cut back to a prefix. */
  reuse: boolean;
};

export function newSlots(count: number, contextLength: number): Slot[] {
  return Array.from({ length: count }, () => ({
    tokens: new Int32Array(contextLength),
    length: 0,
    adapter: 0,
    busy: false,
    usedAt: 0,
    kept: 0,
    stamp: 0,
  }));
}

/** Returns how many tokens both have in common from the start, at most `most`. */
function commonPrefix(a: Int32Array, b: Int32Array, most: number): number {
  let n = 0;
  while (n < most && a[n] === b[n]) n++;
  return n;
}

/** Numbers below 0 are rows of an image, which is kept whole or not at all: its rows may have seen each other. */
function wholeImages(prompt: Int32Array, keep: number): number {
  let at = keep;
  if (at < prompt.length && prompt[at]! < 0) while (at > 0 && prompt[at - 1]! < 0) at--;
  return at;
}

/**
 * Returns undefined if every slot is busy. At least one token of the prompt is left to compute: its logits are needed.
 */
export function place(
  prompt: Int32Array,
  adapter: number,
  slots: readonly Slot[],
  rules: PlaceRules,
): Placement | undefined {
  const target = emptiest(slots);
  if (target < 0) return undefined;
  if (!rules.reuse) return { slot: target, from: target, keep: 0 };
  const shared = (i: number) => {
    const slot = slots[i]!;
    if (slot.adapter !== adapter) return 0;
    return wholeImages(prompt, commonPrefix(slot.tokens, prompt, Math.min(slot.length, prompt.length - 1)));
  };
  let best = target;
  let keep = shared(target);
  for (let i = 0; i < slots.length; i++) {
    const common = shared(i);
    if (common > keep || (common === keep && common > 0 && slots[best]!.busy && !slots[i]!.busy)) {
      best = i;
      keep = common;
    }
  }
  const { busy, length } = slots[best]!;
  if (best === target || (!busy && keep * 2 >= length)) return { slot: best, from: best, keep };
  if (keep >= rules.copyMin) return { slot: target, from: best, keep };
  return { slot: target, from: target, keep: shared(target) };
}

/**
 * Returns the free slot to give away, or -1. The native batch is split wherever its slots are not neighbours, so a slot
 * beside a running one comes first. Among equals the one unused for longest wins.
 */
function emptiest(slots: readonly Slot[]): number {
  const first = slots.findIndex((slot) => slot.busy);
  const last = slots.findLastIndex((slot) => slot.busy);
  const distance = (i: number) => (first < 0 || (i > first && i < last) ? 0 : i < first ? first - i : i - last);
  let best = -1;
  for (let i = 0; i < slots.length; i++) {
    if (slots[i]!.busy) continue;
    if (best < 0) best = i;
    const closer = distance(i) - distance(best);
    if (closer < 0 || (closer === 0 && slots[i]!.usedAt < slots[best]!.usedAt)) best = i;
  }
  return best;
}

/**
 * Returns idle slots to decode along, in gaps of at most `most`. The native batch is split wherever a slot between two
 * working ones is idle. Two small batches cost much more than one with unused results.
 */
export function fillers(working: readonly boolean[], most: number): number[] {
  const fill: number[] = [];
  let last = -1;
  for (let i = 0; i < working.length; i++) {
    if (!working[i]) continue;
    if (last >= 0 && i - last - 1 <= most) for (let gap = last + 1; gap < i; gap++) fill.push(gap);
    last = i;
  }
  return fill;
}

export type Load = {
  /** Sequences that take one token each in the next batch. */
  decoding: number;
  /** Sequences whose prompts are being read. */
  reading: number;
  /** The capacity of a batch. */
  batchTokens: number;
  /** The measured value; 0 before the first prompt. */
  promptMsPerToken: number;
};

const STALL_MS = 60; // a running stream waits about this long at most for another request's prompt
const CROWD = 4; // the limit grows up to this many times if that many more sequences wait to begin
const STEP_MS = 400; // without running sequences: the longest wait of a new request or a cancellation
const LEAST = 16;
const LEAST_ALONE = 64; // smaller batches cost more for each token, and the measured cost would keep them small
const UNMEASURED = 64;

/** Returns how many prompt tokens fit into the next batch without a long pause for running or new requests. */
export function promptBudget({ decoding, reading, batchTokens, promptMsPerToken }: Load): number {
  const room = batchTokens - decoding;
  const limitMs = decoding === 0 ? STEP_MS : STALL_MS * Math.min(CROWD, Math.max(1, reading / decoding));
  const bearable = promptMsPerToken > 0 ? Math.floor(limitMs / promptMsPerToken) : UNMEASURED;
  return Math.min(room, Math.max(decoding === 0 ? LEAST_ALONE : LEAST, bearable));
}

const SHORT = 32;

/**
 * Splits the budget among prompts, oldest first; `left` is the rest of each. Short prompts go first, with at most half
 * of the budget. A short question then does not wait behind a long document, nor the document behind endless questions.
 */
export function promptShares(left: readonly number[], budget: number): number[] {
  const shares = left.map(() => 0);
  let rest = budget;
  const give = (i: number, most: number) => {
    const more = Math.min(left[i]! - shares[i]!, most);
    shares[i]! += more;
    rest -= more;
  };
  left.forEach((tokens, i) => {
    if (tokens <= SHORT) give(i, Math.max(0, rest - Math.floor(budget / 2)));
  });
  left.forEach((_, i) => {
    give(i, rest);
  });
  return shares;
}

/**
 * Returns the adapter of the next batch, or undefined if there is nothing to run. `waiting`: the adapters of all
 * runnable sequences, oldest first. After `turn` batches with one adapter the next in line follows.
 */
export function nextAdapter(
  waiting: readonly number[],
  current: number,
  batchesSoFar: number,
  turn: number,
): number | undefined {
  if (waiting.includes(current) && batchesSoFar < turn) return current;
  return waiting.find((adapter) => adapter !== current) ?? waiting[0];
}

/**
 * Chooses prompts by what their completions earned so far. The whole state is small numbers of the prompts that were drawn;
 * a checkpoint stores it, and a resumed run draws the same prompts.
 *
 * - `difficulty`: a prompt is drawn in proportion to the spread of its rewards. New prompts count as those with the largest spread.
 * - `replay`: a share of each draw is prompts whose last completions had a rare success; the rest comes in the usual order.
 * - A prompt that was solved several times in a row is retired, under every sampling, unless too few remain.
 */
import { openRandom } from "../../../lib/random.ts";
import type { Sampling } from "../../../lib/training/fields.ts";
import type { Order } from "./order.ts";

export type CurriculumOptions = {
  rows: number;
  seed: number;
  sampling: Sampling;
  /** Visits in a row with only solved completions after which a prompt is retired. Null: never. */
  retireAfter: number | null;
  /** A completion with at least this reward is solved. Null: none is. */
  solvedReward: number | null;
  /** `replay`: the share of a draw. */
  replayShare: number;
};

/** One prompt: visits, means of rewards and of their variance within a visit, visits in a row that were solved, share of solved ones. */
type Visits = { visits: number; mean: number; variance: number; solvedVisits: number; solvedShare: number };
/** `draws` counts the draws. `changes`: draws since the buffer of `replay` last changed. */
export type CurriculumState = { draws: number; unchanged: number; seen: [number, Visits][] };

export type Curriculum = {
  draw: (count: number) => number[];
  /** The rewards of the completions of one prompt. */
  note: (prompt: number, rewards: readonly (number | null)[]) => void;
  metrics: () => Record<string, number>;
  state: () => CurriculumState;
};

const NEWEST = 0.5; // share of the newest visit in the means
const LEAST_WEIGHT = 0.05; // of the largest: a prompt without any spread is still tried now and then
const RARE = 0.5;
const MOST_REPLAYED = 256; // prompts of the buffer
const CURRICULUM = 7; // distinguishes these draws from others with the same seed

export function openCurriculum(order: Order, options: CurriculumOptions, from: CurriculumState | null): Curriculum {
  const { rows, seed, sampling, retireAfter, replayShare } = options;
  const solvedReward = options.solvedReward ?? Number.POSITIVE_INFINITY;
  const seen = new Map<number, Visits>(from?.seen ?? []);
  let draws = from?.draws ?? 0;
  let unchanged = from?.unchanged ?? 0;
  let replayed = 0;

  const isRetired = (prompt: number) => retireAfter !== null && (seen.get(prompt)?.solvedVisits ?? 0) >= retireAfter;
  const countRetired = () => [...seen.keys()].filter(isRetired).length;
  const isRare = ({ solvedShare }: Visits) => solvedShare > 0 && solvedShare <= RARE;
  const buffer = () =>
    [...seen]
      .filter(([prompt, each]) => isRare(each) && !isRetired(prompt))
      .sort(([a, one], [b, other]) => one.solvedShare - other.solvedShare || a - b)
      .slice(0, MOST_REPLAYED)
      .map(([prompt]) => prompt);

  /** In the usual order, without retired prompts while enough others remain. */
  function usual(count: number): number[] {
    const retired = countRetired();
    if (retired === 0 || rows - retired < count) return order.draw(count);
    const drawn = new Set<number>(); // an epoch may end within a draw, and the next one has the same prompts
    while (drawn.size < count) for (const prompt of order.draw(1)) if (!isRetired(prompt)) drawn.add(prompt);
    return [...drawn];
  }

  /** Without a prompt twice: those with the largest u^(1/weight). */
  function byDifficulty(count: number): number[] {
    const random = openRandom(seed, CURRICULUM, draws);
    const largest = [...seen.values()].reduce((most, { variance }) => Math.max(most, variance), 0);
    const weightOf = (each: Visits | undefined) =>
      each === undefined || largest === 0 ? 1 : Math.max(LEAST_WEIGHT, each.variance / largest);
    const keys: { prompt: number; key: number }[] = [];
    const left = rows - countRetired();
    for (let prompt = 0; prompt < rows; prompt++) {
      const key = Math.log(Math.max(random(), 1e-12)) / weightOf(seen.get(prompt));
      if (left < count || !isRetired(prompt)) keys.push({ prompt, key });
    }
    keys.sort((a, b) => b.key - a.key);
    const drawn = keys.slice(0, count).map(({ prompt }) => prompt);
    return drawn.length < count ? [...drawn, ...order.draw(count - drawn.length)] : drawn;
  }

  function withReplay(count: number): number[] {
    const all = buffer();
    const random = openRandom(seed, CURRICULUM, draws);
    const most = Math.min(all.length, Math.floor(replayShare * count));
    const again = all
      .map((prompt) => ({ prompt, key: random() }))
      .sort((a, b) => a.key - b.key)
      .slice(0, most)
      .map(({ prompt }) => prompt);
    replayed = again.length;
    if (again.length > 0) unchanged++;
    return [...again, ...usual(count - again.length)];
  }

  return {
    draw(count) {
      const drawn = { uniform: usual, difficulty: byDifficulty, replay: withReplay }[sampling](count);
      draws++;
      return drawn;
    },
    note(prompt, rewards) {
      const known = rewards.filter((reward) => reward !== null);
      if (known.length === 0) return;
      const mean = known.reduce((a, b) => a + b, 0) / known.length;
      const variance = known.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / known.length;
      const solvedShare = known.filter((reward) => reward >= solvedReward).length / known.length;
      const before = seen.get(prompt);
      const wasRare = before !== undefined && isRare(before);
      const moved = (old: number | undefined, now: number) => (old === undefined ? now : old + NEWEST * (now - old));
      const after: Visits = {
        visits: (before?.visits ?? 0) + 1,
        mean: moved(before?.mean, mean),
        variance: moved(before?.variance, variance),
        solvedVisits: solvedShare === 1 ? (before?.solvedVisits ?? 0) + 1 : 0,
        solvedShare,
      };
      seen.set(prompt, after);
      if (isRare(after) !== wasRare) unchanged = 0;
    },
    metrics: () => ({
      "sampling/seen_prompts": seen.size,
      ...(retireAfter === null ? {} : { "sampling/retired_prompts": countRetired() }),
      ...(sampling === "replay"
        ? {
            "sampling/replay_buffer": buffer().length,
            "sampling/replayed": replayed,
            "sampling/replay_unchanged": unchanged,
          }
        : {}),
    }),
    state: () => ({ draws, unchanged, seen: [...seen] }),
  };
}

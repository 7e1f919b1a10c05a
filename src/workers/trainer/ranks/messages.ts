/** Messages between ranks, as bytes: scores, completions, rewards, and the state of the loop. */
import type { ActAll, ActResult } from "../loop/turns.ts";
import type { Score, ScoreAnswer } from "../loop/types.ts";
import type { Rollout } from "../rollouts/types.ts";
import type { Extras, Scores } from "../trainee/types.ts";
import type { Ranks } from "./types.ts";

const bytesOf = (values: Int32Array | Float32Array) =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
/** A copy, because numbers must begin at a multiple of 4 bytes. */
const floatsOf = (bytes: Uint8Array) => new Float32Array(new Uint8Array(bytes).buffer);
const intsOf = (bytes: Uint8Array) => new Int32Array(new Uint8Array(bytes).buffer);

/** Returns the next bytes with each call. */
function readerOf(bytes: Uint8Array) {
  let at = 0;
  return (count: number) => {
    at += count;
    return bytes.subarray(at - count, at);
  };
}

export const encodeScores = (scores: readonly Scores[]): Uint8Array =>
  Buffer.concat(
    scores
      .flatMap(({ logps, entropies, divergences }) => [logps, entropies, divergences])
      .filter((each) => each !== null && each !== undefined)
      .map(bytesOf),
  );

/** `lengths`: scored tokens of each piece. */
export function decodeScores(
  bytes: Uint8Array,
  lengths: readonly number[],
  { entropies, divergences }: Extras,
): Scores[] {
  const rest = readerOf(bytes);
  const next = (count: number) => floatsOf(rest(4 * count));
  return lengths.map((length) => ({
    logps: next(length),
    entropies: entropies ? next(length) : null,
    ...(divergences ? { divergences: next(length) } : {}),
  }));
}

type Head = { tokens: number; isScored: boolean; text: string; truncated: boolean };

/** A line of JSON, then the tokens and log-probabilities of all completions. */
export function encodeRollouts(groups: readonly Rollout[][]): Uint8Array {
  const heads = groups.map((group) =>
    group.map(
      ({ tokens, logps, text, truncated }): Head => ({
        tokens: tokens.length,
        isScored: logps !== null,
        text,
        truncated,
      }),
    ),
  );
  const numbers = groups.flat().flatMap(({ tokens, logps }) => (logps ? [tokens, logps] : [tokens]));
  return Buffer.concat([Buffer.from(`${JSON.stringify(heads)}\n`), ...numbers.map(bytesOf)]);
}

export function decodeRollouts(bytes: Uint8Array): Rollout[][] {
  const line = bytes.indexOf(10) + 1; // JSON text has no line feed
  const heads = JSON.parse(Buffer.from(bytes.subarray(0, line)).toString()) as Head[][];
  const rest = readerOf(bytes.subarray(line));
  const next = (count: number) => rest(4 * count);
  return heads.map((group) =>
    group.map(({ tokens, isScored, text, truncated }) => ({
      tokens: intsOf(next(tokens)),
      logps: isScored ? floatsOf(next(tokens)) : null,
      text,
      truncated,
    })),
  );
}

/** Rank 0 has the completions scored, and all ranks get the answer. */
export const spreadScore =
  (ranks: Ranks, score: Score): Score =>
  async (step, samples) => {
    const answer = ranks.index === 0 ? Buffer.from(JSON.stringify(await score(step, samples))) : new Uint8Array(0);
    const [first] = await ranks.gather(answer);
    return JSON.parse(Buffer.from(first!).toString()) as ScoreAnswer;
  };

/** Rank 0 lets things happen in rollouts, once, and all ranks get the answer. */
export const spreadActs =
  (ranks: Ranks, act: ActAll): ActAll =>
  async (acts) => {
    const answer = ranks.index === 0 ? Buffer.from(JSON.stringify(await act(acts))) : new Uint8Array(0);
    const [first] = await ranks.gather(answer);
    return JSON.parse(Buffer.from(first!).toString()) as ActResult[];
  };

/** Tells all ranks if rank 0 ends the training now. Throws if the last steps of the ranks were not the same. */
export async function agreeToEnd(ranks: Ranks | null, ending: boolean, norm: number): Promise<boolean> {
  if (!ranks) return ending;
  const all = await ranks.gather(new Uint8Array(Float64Array.of(ending ? 1 : 0, norm).buffer));
  const said = all.map((bytes) => new Float64Array(new Uint8Array(bytes).buffer));
  const other = said.findIndex((each) => !Object.is(each[1], said[0]![1]));
  if (other > 0)
    throw new Error(
      `The ranks differ: the norm of the gradient is ${said[0]![1]} on rank 0 and ${said[other]![1]} on rank ${other}`,
    );
  return said[0]![0] === 1;
}

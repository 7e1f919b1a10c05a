// tier: all (trains models)
import { describe, expect, test } from "bun:test";
import { openRandom } from "../../../lib/random.ts";
import { agreeToEnd, decodeRollouts, decodeScores, encodeRollouts, encodeScores, spreadScore } from "./messages.ts";
import { joinSharedMemory, newSharedMemory } from "./shared_memory.ts";
import { partsOf, rangesOf } from "./shares.ts";
import type { Part } from "./types.ts";

const seats = (count: number) => {
  const fd = newSharedMemory(count);
  return Array.from({ length: count }, (_, index) => joinSharedMemory({ index, count, fd, onTurn() {} }));
};

describe("shares", () => {
  test.each([
    [[4, 4, 4, 4], 2, ["0-2", "2-4"]],
    [[8, 4, 4], 2, ["0-1", "1-3"]],
    [[5], 2, ["0-0", "0-1"]],
    [[], 2, ["0-0", "0-0"]],
    [[1, 1, 1, 1, 1, 1, 1], 3, ["0-2", "2-5", "5-7"]],
  ])("%j over %d ranks", (costs, count, expected) => {
    expect(rangesOf(costs, count).map(({ from, to }) => `${from}-${to}`)).toEqual(expected);
  });

  test("a group of samples goes to the part with the least", () => {
    expect(partsOf([4, 4, 8, 4, 2], 2)).toEqual([0, 1, 0, 1, 1]);
  });
});

describe("shared memory", () => {
  /** More than all segments together hold. */
  const LENGTH = 2_200_001;
  const random = openRandom(3);
  const values = () => Float32Array.from({ length: LENGTH }, () => (random() - 0.5) * 10 ** Math.floor(6 * random()));

  test("sums have the bits of one process that adds in order, and all ranks get them", async () => {
    const micros = [values(), values(), values(), values(), values()];
    const middle = values().slice(0, 1000); // a second gradient of the same weight
    const expected = new Float32Array(LENGTH);
    const add = (at: number, more: Float32Array) =>
      more.forEach((value, i) => {
        expected[at + i]! += value;
      });
    for (const [i, micro] of micros.entries()) {
      add(0, micro);
      if (i === 2) add(262_000, middle);
    }
    const first = micros[0]!.map((value, i) => value + micros[1]![i]!);
    const parts: Part[][] = [
      [{ at: 0, values: first }],
      [
        { at: 0, values: micros[2]! },
        { at: 262_000, values: middle },
        { at: 0, values: micros[3]! },
      ],
      [{ at: 0, values: micros[4]! }],
    ];
    const sums = await Promise.all(
      seats(3).map(async ({ gradients, index }) => {
        const sum = new Float32Array(LENGTH);
        const take = (segment: Part) => sum.set(segment.values, segment.at);
        for (let step = 0; step < 2; step++)
          await Promise.all([gradients.publish(parts[index]!, LENGTH), gradients.collect(LENGTH, take)]);
        return sum;
      }),
    );
    for (const sum of sums) expect(Buffer.compare(Buffer.from(sum.buffer), Buffer.from(expected.buffer))).toBe(0);
  });

  test("messages of any length reach every rank, again and again", async () => {
    const sizes = [
      [0, 5, 2_100_000],
      [1_048_576, 0, 1],
      [0, 0, 0],
    ];
    const said = await Promise.all(
      seats(3).map(async ({ gather, index }) => {
        const rounds: number[][] = [];
        for (const [i, size] of sizes.entries())
          rounds.push(
            (await gather(new Uint8Array(size[index]!).fill(i + index + 1))).map((all) => {
              expect(all.every((byte) => byte === all[0])).toBe(true);
              return all.length;
            }),
          );
        return rounds;
      }),
    );
    expect(said).toEqual([sizes, sizes, sizes]);
  });

  test("ranks end together when the first does, and a rank that drifted is an error", async () => {
    const all = seats(2);
    expect(await Promise.all(all.map((ranks) => agreeToEnd(ranks, ranks.index === 0, 1.5)))).toEqual([true, true]);
    expect(await Promise.all(all.map((ranks) => agreeToEnd(ranks, ranks.index === 1, Number.NaN)))).toEqual([
      false,
      false,
    ]);
    const drifted = await Promise.allSettled(all.map((ranks) => agreeToEnd(ranks, false, 1 + ranks.index)));
    expect(drifted.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(await agreeToEnd(null, true, 0)).toBe(true);
  });

  test("only the first rank has completions scored", async () => {
    const answer = {
      results: [{ reward: 0.1, sub_rewards: { it: null }, error: null }],
      latencies_ms: [2],
      stdout: "é",
    };
    let calls = 0;
    const score = async () => {
      calls++;
      return answer;
    };
    expect(await Promise.all(seats(2).map((ranks) => spreadScore(ranks, score)(1, [])))).toEqual([answer, answer]);
    expect(calls).toBe(1);
  });
});

test("scores and completions survive as bytes", () => {
  const scores = [
    { logps: Float32Array.of(-0.1, Number.NEGATIVE_INFINITY), entropies: Float32Array.of(1, 2) },
    { logps: Float32Array.of(-3), entropies: Float32Array.of(0) },
  ];
  expect(decodeScores(encodeScores(scores), [2, 1], { entropies: true, divergences: false })).toEqual(scores);
  const groups = [
    [
      { tokens: Int32Array.of(1, 2, 3), logps: Float32Array.of(-1, -2, -0.3), text: "a\nü", truncated: true },
      { tokens: new Int32Array(0), logps: null, text: "", truncated: false },
    ],
    [],
  ];
  expect(decodeRollouts(encodeRollouts(groups))).toEqual(groups);
});

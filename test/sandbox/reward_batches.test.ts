// tier: all (many jails)
import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import type { Language, Sample } from "../../src/lib/rewards/contract.ts";
import { createRewardPool } from "../../src/sandbox/reward/pool.ts";
import { openScorer } from "../../src/sandbox/reward/scorer.ts";
import { spawnReward } from "../../src/sandbox/reward/spawn.ts";
import { tempDir } from "../harness.ts";

/** One batch after the other in real processes of little memory. */
const dataDir = tempDir();
const settings = { require: "language", memory_mib: 128, spare_seconds: 0 } as const;
const pool = createRewardPool({ settings, dataDir, spawn: spawnReward });
afterAll(async () => {
  await pool.close();
  rmSync(dataDir, { recursive: true, force: true });
});

const SOURCES: [Language, string][] = [
  ["python", "def reward(completions, answer, **kwargs):\n    return answer\n"],
  ["javascript", "export const reward = ({ completions, answer }) => answer;"],
];
const scorerOf = (language: Language, source: string) =>
  openScorer(pool, {
    parts: [{ name: "reward", weight: 1, code: { language, source, params: {}, seed: 1 } }],
    limits: { sampleMs: 20_000, batchMs: 60_000 },
  });
const samples = (answers: number[], column: unknown = null): Sample[] =>
  answers.map((answer) => ({ prompt: "p", completion: "c", row: { answer, column } }));

test.each(SOURCES)(
  "%s: a batch that does not fit gets faults, never the rewards of the one before",
  async (language, source) => {
    const scorer = await scorerOf(language, source);
    const rewards = async (batch: Sample[]) => {
      const { results } = await scorer.score(batch);
      return results.map(({ reward, error }) => reward ?? error?.kind);
    };
    expect(await rewards(samples([1, 2]))).toEqual([1, 2]);
    const large = Array.from({ length: 600_000 }, (_, i) => [i]);
    // Where the process is ended for it before the code itself gives up, the second is tried alone, and may fit.
    const [first, second] = await rewards(samples([3, 4], large));
    expect(first).toBe("memory");
    expect(["memory", 4]).toContain(second as never);
    expect(await rewards(samples([5, 6]))).toEqual([5, 6]);
    await scorer.close();
  },
);

// tier: all (many jails)
/** Environments in real processes: their tools, their rollouts, and what a bad tool costs. */
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import type { Act, Language } from "../../src/lib/rewards/contract.ts";
import { createRewardPool } from "../../src/sandbox/reward/pool.ts";
import { openScorer } from "../../src/sandbox/reward/scorer.ts";
import { spawnReward } from "../../src/sandbox/reward/spawn.ts";
import { tempDir } from "../harness.ts";

const dataDir = tempDir();
const settings = { require: "language", memory_mib: 512, spare_seconds: 0 } as const;
const pool = createRewardPool({ settings, dataDir, spawn: spawnReward });
afterAll(async () => {
  await pool.close();
  rmSync(dataDir, { recursive: true, force: true });
});

const PYTHON = `
import random
from typing import Literal

class IncrementEnv:
    """Counts."""
    def reset(self, start=0, **kwargs):
        self.counter = start
        self.goal = kwargs.get("goal")
        return f" The counter is at {start}."

    def increment(self, step: int, times: int = 1) -> int:
        """
        Increment the internal counter.

        Args:
            step: Value to add to
                the counter.
            times (int): How often.

        Returns:
            The updated counter value.
        """
        self.counter += step * times
        return self.counter

    def look(self, unit: Literal["ones", "tens"], names: list[str] | None = None) -> dict:
        return {"unit": unit, "names": names, "at": self.counter}

    async def later(self):
        return "now"

    def draw(self) -> float:
        return random.random()

    def break_down(self):
        raise ValueError("no more")

    def hang(self):
        while True:
            pass

    def _private(self):
        return 1

    def get_reward(self) -> float:
        return 1.0 if self.counter == self.goal else 0.0
`;
const TYPESCRIPT = `
/** Counts. */
export class IncrementEnv {
  counter = 0;
  goal: number | undefined;
  reset({ start = 0, goal }: { start?: number; goal?: number }) {
    this.counter = start;
    this.goal = goal;
    return \` The counter is at \${start}.\`;
  }
  /**
   * Increment the internal counter.
   * @param step Value to add to
   *   the counter.
   * @param times - How often.
   */
  increment(step: number, times: number = 1): number {
    return (this.counter += step * times);
  }
  look({ unit, names }: { unit: "ones" | "tens"; names?: string[] }) {
    return { unit, names: names ?? null, at: this.counter };
  }
  async later() {
    return "now";
  }
  draw(): number {
    return Math.random();
  }
  break_down() {
    throw new RangeError("no more");
  }
  hang() {
    for (;;);
  }
  _private() {
    return 1;
  }
  getReward() {
    return this.counter === this.goal ? 1 : 0;
  }
}
`;

const open = (language: Language, source: string, sampleMs = 1_000) =>
  openScorer(pool, {
    parts: [{ name: "env", weight: 1, code: { language, source, params: {}, seed: 1 } }],
    limits: { sampleMs, batchMs: 60_000 },
  });
const reset = (rollout: number, row: Record<string, unknown> = {}): Act => ({ rollout, seed: 7, act: "reset", row });
const call = (rollout: number, name: string, given: Record<string, unknown> = {}, seed = 1): Act => ({
  rollout,
  seed,
  act: "call",
  name,
  arguments: given,
});
const scored = (rollouts: number[]) => rollouts.map((rollout) => ({ prompt: "p", completion: [], row: {}, rollout }));

describe.each([
  ["python", PYTHON],
  ["typescript", TYPESCRIPT],
] as const)("%s", (language, source) => {
  test("tools are the public methods, with types, descriptions and defaults", async () => {
    const process = await pool.take(language);
    const loaded = await process.load({ language, source, params: {}, seed: 1 }, 10_000);
    await process.close();
    if (!loaded.ok) throw new Error(loaded.error.message);
    expect(loaded.entrypoints.map(({ name, form }) => [name, form])).toEqual([["IncrementEnv", "sample"]]);
    const [environment] = loaded.environments;
    expect(environment?.tools.map(({ name }) => name)).toEqual([
      "increment",
      "look",
      "later",
      "draw",
      "break_down",
      "hang",
    ]);
    const number = language === "python" ? "integer" : "number";
    expect(environment?.tools[0]).toMatchObject({
      description: "Increment the internal counter.",
      parameters: {
        type: "object",
        properties: {
          step: { type: number, description: "Value to add to the counter." },
          times: { type: number, description: "How often." },
        },
        required: ["step"],
      },
    });
    expect(environment?.tools[1]?.parameters).toMatchObject({
      properties: { unit: { enum: ["ones", "tens"] }, names: { type: "array", items: { type: "string" } } },
      required: ["unit"],
    });
  });

  test("rollouts have states of their own, and their rewards; a reward without a rollout is a fault", async () => {
    const scorer = await open(language, source);
    const begun = await scorer.act([reset(1, { start: 2, goal: 5 }), reset(2, { goal: 9 })]);
    expect(begun.map(({ text }) => text)).toEqual([" The counter is at 2.", " The counter is at 0."]);
    const acted = await scorer.act([
      call(1, "increment", { step: 3 }),
      call(2, "increment", { step: 2, times: 4 }),
      call(2, "look", { unit: "tens" }),
      call(1, "later"),
    ]);
    expect(acted.map(({ text, failed }) => [text, failed])).toEqual([
      ["5", false],
      ["8", false],
      [expect.stringMatching(/^\{"unit": ?"tens", ?"names": ?null, ?"at": ?8\}$/), false],
      ["now", false],
    ]);
    const { results } = await scorer.score([...scored([1, 2]), { prompt: "p", completion: "c", row: {} }]);
    expect(results.map(({ reward }) => reward)).toEqual([1, 0, null]);
    expect(results[2]?.error?.message).toContain("lost");
    const [gone] = await scorer.act([call(1, "look", { unit: "ones" })]);
    expect(gone?.fault?.message).toContain("lost"); // the rollout ended with its score
    await scorer.close();
  }, 60_000);

  test("a tool that raises, is unknown, private or called wrongly is told to the model, and the rollout goes on", async () => {
    const scorer = await open(language, source);
    await scorer.act([reset(1, { goal: 1 })]);
    const acted = await scorer.act([
      call(1, "break_down"),
      call(1, "nothing"),
      call(1, "_private"),
      call(1, "get_reward"),
      call(1, "increment", {}),
      call(1, "increment", { step: 1 }),
    ]);
    expect(acted.map(({ failed }) => failed)).toEqual([true, true, true, true, true, false]);
    expect(acted[0]?.text).toMatch(/^Error: \w+Error: no more$/);
    expect(acted[1]?.text).toContain("The tools are increment, look");
    expect((await scorer.score(scored([1]))).results[0]?.reward).toBe(1);
    await scorer.close();
  }, 60_000);

  test("a tool that hangs costs its rollout alone: the others are repeated in a new process, with the same draws", async () => {
    const scorer = await open(language, source);
    await scorer.act([reset(1, { goal: 4 }), reset(2, { goal: 4 }), reset(3)]);
    const before = await scorer.act([call(1, "increment", { step: 4 }), call(2, "increment", { step: 3 })]);
    expect(before.map(({ text }) => text)).toEqual(["4", "3"]);
    const [hung, after, drawn] = await scorer.act([
      call(3, "hang"),
      call(2, "increment", { step: 1 }),
      call(1, "draw", {}, 5),
    ]);
    expect(hung?.fault?.kind).toBe("timeout");
    expect(after?.text).toBe("4"); // the state of before
    const [again] = await scorer.act([call(1, "draw", {}, 5)]);
    expect(again?.text).toBe(drawn!.text!);
    const { results } = await scorer.score(scored([1, 2, 3]));
    expect(results.map(({ reward }) => reward)).toEqual([1, 1, null]);
    await scorer.close();
  }, 60_000);
});

test("reward functions as in TRL's documents read the environments", async () => {
  const source = `
class IncrementEnv:
    def reset(self, **kwargs):
        self.counter = 0
        return None

    def increment(self, step: int) -> int:
        """
        Increment the internal counter.

        Args:
            step: Value to add to the counter.
        """
        self.counter += step
        return self.counter

def reward_func(environments, **kwargs):
    return [environment.counter for environment in environments]
`;
  const scorer = await open("python", source);
  expect((await scorer.act([reset(1), reset(2)])).map(({ text }) => text)).toEqual([null, null]);
  await scorer.act([call(2, "increment", { step: 3 })]);
  expect((await scorer.score(scored([1, 2]))).results.map(({ reward }) => reward)).toEqual([0, 3]);
  await scorer.close();
}, 60_000);

test("a row names its environment; an unknown one loses the rollout; a class without a reward is refused", async () => {
  const source = `
class Base:
    def reset(self, **row):
        return None
    def get_reward(self):
        return self.value

class One(Base):
    value = 1
    def first(self): return "1"

class Two(Base):
    value = 2
    def second(self): return "2"
`;
  const scorer = await open("python", source);
  const begun = await scorer.act([reset(1), reset(2, { environment: "Two" }), reset(3, { environment: "Three" })]);
  expect(begun.map(({ fault }) => fault?.message)).toEqual([undefined, undefined, expect.stringContaining("One, Two")]);
  const acted = await scorer.act([call(1, "second"), call(2, "second")]);
  expect(acted.map(({ failed }) => failed)).toEqual([true, false]);
  expect((await scorer.score(scored([1, 2]))).results.map(({ reward }) => reward)).toEqual([1, 2]);
  await scorer.close();
  for (const [language, text] of [
    ["python", "class Env:\n    def reset(self):\n        pass\n"],
    ["typescript", "export class Env { reset() {} }"],
  ] as const)
    await expect(open(language, text)).rejects.toThrow(/`Env` has no `get_?[rR]eward/);
}, 60_000);

import { expect, test } from "bun:test";
import { conversationsOf, isSameTask, requestOf, rewardText, spansOf, worthOf } from "./turns.ts";
import type { Rollout, Turn } from "./types.ts";

const turn = (number: number, parent: number | null, more: object = {}) =>
  ({
    number,
    parent,
    branch: null,
    messages: [{ role: "user", content: `ask ${number}` }],
    completion: { choices: [{ message: { role: "assistant", content: `say ${number}` } }] },
    latency_ms: 100,
    created_at: new Date(1_000 * number).toISOString(),
    ...more,
  }) as unknown as Turn;

test("a conversation goes from its first turn to an answer that no other turn goes on from", () => {
  const turns = [turn(1, null), turn(2, 1), turn(3, 1), turn(4, null, { branch: "history" })];
  const numbers = conversationsOf(turns).map((path) => path.map(({ number }) => number));
  expect(numbers).toEqual([[1, 2], [1, 3], [4]]);
  expect(conversationsOf([])).toEqual([]);
});

test("the request of a turn has all messages before its answer", () => {
  const texts = requestOf([turn(1, null), turn(2, 1)]).map((each) => (each as { content: string }).content);
  expect(texts).toEqual(["ask 1", "say 1", "ask 2"]);
});

test("times begin with the first request, and a pause between two turns is the agent's own", () => {
  expect(spansOf([turn(1, null), turn(2, 1, { latency_ms: 300 })])).toEqual({
    spans: [
      { number: 1, startMs: 0, ms: 100 },
      { number: 2, startMs: 800, ms: 300 },
    ],
    wholeMs: 1_100,
    modelMs: 400,
  });
  expect(spansOf([])).toEqual({ spans: [], wholeMs: 0, modelMs: 0 });
});

test("two rollouts have the same task if both begin with the same messages", () => {
  expect(isSameTask([turn(1, null), turn(2, 1)], [turn(1, null)])).toBe(true);
  expect(isSameTask([turn(1, null)], [turn(2, null)])).toBe(false);
  expect(isSameTask([], [])).toBe(false);
});

test("tokens are worth their advantage, else their reward, and a missing reward has a reason", () => {
  expect(worthOf({ reward: 1, metrics: { advantage: -0.5 } })).toEqual({ name: "Advantage", value: -0.5 });
  expect(worthOf({ reward: 0, metrics: {} })).toEqual({ name: "Reward", value: 0 });
  expect(worthOf({ reward: null, metrics: {} })).toBeUndefined();
  const text = (more: object) =>
    rewardText({ status: "ended", ended_by: "turns", finished_at: null, replay_of: null, ...more } as Rollout);
  expect(text({})).toStartWith("All its turns were used. No reward has come");
  expect(text({ status: "finished", ended_by: null, finished_at: "x" })).toStartWith("The program that opened it sent");
  expect(text({ status: "open", ended_by: null })).toStartWith("It still runs");
});

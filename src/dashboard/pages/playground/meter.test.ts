import { expect, test } from "bun:test";
import { doneAnswer, NEW_ANSWER, speedOf } from "./answer.ts";
import { meterOf, tokensOf } from "./meter.ts";
import { nameOf } from "./serve.ts";
import type { Turn } from "./tree.ts";

const usage = (total: number) => ({ prompt_tokens: total - 1, completion_tokens: 1, total_tokens: total });
const answer = (id: string, total?: number): Turn => ({
  id,
  parent: null,
  role: "assistant",
  answer: { ...doneAnswer({ text: "x" }), usage: total === undefined ? undefined : usage(total) },
});

test("the meter shows the tokens of the last counted answer in the context of the deployment", () => {
  expect(tokensOf([answer("a", 40), answer("b", 80), answer("c")])).toBe(80);
  expect(meterOf(80, 100)).toEqual({ share: 0.8, tone: "warn", words: "80 of 100 tokens" });
  expect([meterOf(1, 4096)?.tone, meterOf(99, 100)?.tone]).toEqual(["good", "bad"]);
  expect([meterOf(undefined, 100), meterOf(5, null)]).toEqual([undefined, undefined]);
});

test("no speed is shown that was not measured", () => {
  const timings = { predicted_n: 40, predicted_ms: 1_000, predicted_per_second: 40 } as NonNullable<
    Parameters<typeof speedOf>[0]["timings"]
  >;
  expect(speedOf({ state: "done", timings })).toBe(40);
  expect(speedOf({ state: "done", timings: { ...timings, predicted_n: 19 } })).toBeUndefined();
  expect(speedOf({ state: "failed", timings })).toBeUndefined();
  expect(speedOf(NEW_ANSWER)).toBeUndefined();
});

test("a deployment that the page makes has a free name", () => {
  const taken = [
    { name: "verk-tiny", status: "serving" },
    { name: "base", status: "stopped" },
  ] as const;
  expect([nameOf("verk-tiny", taken), nameOf("base", taken)]).toEqual(["verk-tiny-2", "base"]);
  expect([nameOf("a b/c", []), nameOf("日本", [])]).toEqual(["a-b-c", "playground"]);
});

import { expect, test } from "bun:test";
import { logprobs } from "./logprobs.ts";

test("the logprob of the token and the likeliest, in order", () => {
  const odds = [0.1, 0.4, 0.05, 0.3, 0.15];
  const logits = Float32Array.from(odds, (p) => Math.log(p) + 100); // a constant changes nothing
  const [own, ...top] = logprobs(logits, 2, 3);
  expect(Math.exp(own!)).toBeCloseTo(0.05, 4);
  expect(top.filter((_, i) => i % 2 === 0)).toEqual([1, 3, 4]);
  expect(top.filter((_, i) => i % 2 === 1).map((lp) => Math.exp(lp).toFixed(3))).toEqual(["0.400", "0.300", "0.150"]);
});

test("all tokens of a small vocabulary are listed in any order, impossible tokens last", () => {
  const logits = Float32Array.of(3, Number.NEGATIVE_INFINITY, 1, 2);
  expect(Array.from(logprobs(logits, 1, 4)).filter((_, i) => i % 2 === 1)).toEqual([0, 3, 2, 1]);
  expect(logprobs(logits, 1, 0)[0]).toBe(Number.NEGATIVE_INFINITY);
});

test("one alternative is the likeliest token, and a temperature makes all more alike", () => {
  const logits = Float32Array.of(0, 2, 1);
  const norm = Math.log(1 + Math.exp(2) + Math.exp(1));
  const [own, token, logprob] = logprobs(logits, 2, 1);
  expect([own, token, logprob].map((value) => value!.toFixed(5))).toEqual([
    (1 - norm).toFixed(5),
    "1.00000",
    (2 - norm).toFixed(5),
  ]);
  expect(logprobs(logits, 2, 0)).toHaveLength(1);
  const warm = Math.log(1 + Math.exp(1) + Math.exp(0.5));
  expect(logprobs(logits, 1, 1, 2)[0]).toBeCloseTo(1 - warm, 5);
});

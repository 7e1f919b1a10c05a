import { expect, test } from "bun:test";
import { PAGE } from "../../native/cuda/decode/kernels.ts";
import { tokensOf } from "./admission.ts";
import type { Drawing } from "./drawing.ts";
import { MOST_BIASES } from "./slot_memory.ts";

const VOCAB = 100;
const biases = (count: number, token = 1): Drawing["logitBias"] => Array.from({ length: count }, () => [token, 1]);
const needed = (prompt: readonly number[], maxTokens: number, room: object = {}, logitBias = biases(0)) => {
  const drawing = { logitBias } as Drawing;
  const all = { contextLength: 4 * PAGE, pages: 4, vocab: VOCAB, ...room };
  return tokensOf({ prompt: Int32Array.from(prompt), maxTokens, drawing }, all);
};
const tokens = (count: number) => Array.from({ length: count }, () => 1);

test("a sequence may fill the context and the pages to the last token, and no more", () => {
  expect(needed([1], 1)).toBe(1);
  expect(needed(tokens(8), 3)).toBe(10);
  expect(needed(tokens(PAGE), 3 * PAGE + 1)).toBe(4 * PAGE);
  expect(() => needed(tokens(PAGE), 3 * PAGE + 2)).toThrow(`need ${4 * PAGE + 1} tokens, but the context holds`);
  expect(needed(tokens(11), 10, { contextLength: 20 })).toBe(20);
  expect(() => needed(tokens(11), 11, { contextLength: 20 })).toThrow("need 21 tokens, but the context holds 20");
  expect(needed(tokens(PAGE), PAGE + 1, { pages: 2 })).toBe(2 * PAGE);
  expect(() => needed(tokens(PAGE), PAGE + 2, { pages: 2 })).toThrow(RangeError);
});

test("a prompt has a token, and an answer too", () => {
  expect(() => needed([], 1)).toThrow("has no tokens");
  expect(() => needed([1], 0)).toThrow("maxTokens is below 1");
});

test("tokens of the prompt and of logit_bias are in the vocabulary, and biases are limited", () => {
  expect(needed([0, VOCAB - 1], 1)).toBe(2);
  for (const token of [-1, VOCAB]) {
    expect(() => needed([1, token], 1)).toThrow("not in the vocabulary");
    expect(() => needed([1], 1, {}, biases(1, token))).toThrow("not in the vocabulary");
  }
  expect(needed([1], 1, {}, biases(MOST_BIASES, VOCAB - 1))).toBe(1);
  expect(() => needed([1], 1, {}, biases(MOST_BIASES + 1))).toThrow(`more than ${MOST_BIASES} tokens`);
});

import { expect, test } from "bun:test";
import { spansOf, type Token, toneOf, wordsOf } from "./tokens.ts";

const token = (bytes: number[], logprob: number, top: Token["top_logprobs"] = []): Token => ({
  token: new TextDecoder().decode(Uint8Array.from(bytes)),
  bytes,
  logprob,
  top_logprobs: top,
});

test("a character in two tokens is shown once, in the second", () => {
  const [first, second] = spansOf([token([0xe2, 0x82], 0), token([0xac], Math.log(0.25))]);
  expect([first?.text, second?.text]).toEqual(["", "€"]);
  expect(second?.share).toBeCloseTo(0.25);
});

test("tones and titles follow the probability", () => {
  expect([1, 0.6, 0.2, 0.01].map(toneOf)).toEqual(["sure", "likely", "unsure", "rare"]);
  const other = { token: "5", bytes: null, logprob: Math.log(0.3) };
  const [span] = spansOf([token([0x34], Math.log(0.62), [other])]);
  expect(wordsOf(span!)).toBe('"4" 62.0 %, else "5" 30.0 %');
});

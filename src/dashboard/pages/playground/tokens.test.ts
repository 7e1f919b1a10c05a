import { expect, test } from "bun:test";
import { spanReader, spansBetween, type Token, toneOf, wordsOf } from "./tokens.ts";

const token = (bytes: number[], logprob: number, top: Token["top_logprobs"] = []): Token => ({
  token: new TextDecoder().decode(Uint8Array.from(bytes)),
  bytes,
  logprob,
  top_logprobs: top,
});

test("a character in two tokens is shown once, in the second", () => {
  const { spans, text } = spanReader()([token([0xe2, 0x82], 0), token([0xac], Math.log(0.25))]);
  const [first, second] = spans;
  expect(text).toBe("€");
  expect([first?.text, second?.text]).toEqual(["", "€"]);
  expect(second?.share).toBeCloseTo(0.25);
});

test("tones and titles follow the probability", () => {
  expect([1, 0.6, 0.2, 0.01].map(toneOf)).toEqual(["sure", "likely", "unsure", "rare"]);
  const other = { token: "5", bytes: null, logprob: Math.log(0.3) };
  const [span] = spanReader()([token([0x34], Math.log(0.62), [other])]).spans;
  expect(wordsOf(span!)).toBe('"4" 62.0 %, else "5" 30.0 %');
});

test("tokens that follow are read once, and a part of the text has the parts of its tokens", () => {
  const read = spanReader();
  const tokens = ["One", " two", " three"].map((text) => token([...new TextEncoder().encode(text)], 0));
  read(tokens.slice(0, 1));
  const { spans, text } = read(tokens);
  expect(text).toBe("One two three");
  const between = (from: number, to: number) => spansBetween(spans, from, to).map((part) => part.text);
  expect([between(0, 13), between(4, 9), between(3, 3), between(12, 99)]).toEqual([
    ["One", " two", " three"],
    ["two", " t"],
    [],
    ["e"],
  ]);
});

import { expect, test } from "bun:test";
import { bestCount, Guesser, lookUp, MOST_GUESSES } from "./guesses.ts";

const text = (...all: number[]) => ({
  tokens: Int32Array.from(all.slice(0, -1)),
  length: all.length - 1,
  next: all.at(-1)!,
});

test("what followed the same three tokens is guessed, from their newest place", () => {
  const rows: [tokens: number[], most: number, guesses: number[]][] = [
    [[1, 2, 3, 4, 5, 1, 2, 3], 2, [4, 5]],
    [[1, 2, 3, 4, 9, 1, 2, 3, 6, 9, 1, 2, 3], 1, [6]],
    [[1, 2, 3, 4, 5, 1, 2, 3], 6, [4, 5, 1, 2, 3, 4]], // the text goes on as a loop
    [[7, 7, 7, 7], 3, [7, 7, 7]],
    [[1, 2, 3, 4, 5, 8, 2, 3], 2, []], // only two are alike
    [[1, 2, 3], 4, []],
    [[3], 4, []],
    [[1, 2, 3, 4, 5, 1, 2, 3], 0, []],
  ];
  for (const [tokens, most, guesses] of rows) expect([...lookUp(text(...tokens), most)]).toEqual(guesses);
});

test("tokens behind the end of the text are not read", () => {
  const tokens = Int32Array.of(1, 2, 3, 4, 1, 2, 3, 9, 9);
  expect([...lookUp({ tokens, length: 6, next: 3 }, 3)]).toEqual([4, 1, 2]);
});

test("the more often guesses are right, the more are decoded", () => {
  const counts = [0, 0.2, 0.5, 0.8, 0.95, 1].map((chance) => bestCount(chance));
  expect(counts[0]).toBe(0);
  expect(counts[1]).toBe(0);
  expect(counts.at(-1)).toBe(MOST_GUESSES);
  expect(counts).toEqual([...counts].sort((a, b) => a - b));
  expect(bestCount(1, 3)).toBe(3);
});

test("wrong guesses are soon not decoded any more, and right ones bring them back", () => {
  const guesser = new Guesser();
  const before = text(1, 2, 3, 4, 5, 6, 1, 2, 3);
  const decoded = () => guesser.guess(before, MOST_GUESSES).length;
  expect(decoded()).toBeGreaterThan(0);
  for (let i = 0; i < 10; i++) {
    guesser.guess(before, MOST_GUESSES);
    expect(guesser.drew(0, 99)).toBe(false);
  }
  expect(decoded()).toBe(0);
  for (let i = 0; i < 20; i++) {
    const count = decoded();
    [4, 5, 6].slice(0, count + 1).forEach((token, at) => {
      expect(guesser.drew(at, token)).toBe(at < count);
    });
  }
  expect(decoded()).toBeGreaterThan(3);
});

test("a draw without a guess is no right guess", () => {
  const guesser = new Guesser();
  expect(guesser.drew(0, 4)).toBe(false);
  guesser.guess(text(1, 2, 3), MOST_GUESSES);
  expect(guesser.drew(0, 4)).toBe(false);
});

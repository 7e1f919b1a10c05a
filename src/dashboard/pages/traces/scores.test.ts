import { expect, test } from "bun:test";
import { scoreValue } from "./scores.tsx";

test("a typed score is a number, a decision or a word", () => {
  expect([" 0.8", "-2", ".5", "1."].map(scoreValue)).toEqual([0.8, -2, 0.5, 1]);
  expect(["yes", "TRUE", "no", "false"].map(scoreValue)).toEqual([true, true, false, false]);
  expect(["polite", "1e", "yes it is", "1 2"].map(scoreValue)).toEqual(["polite", "1e", "yes it is", "1 2"]);
});

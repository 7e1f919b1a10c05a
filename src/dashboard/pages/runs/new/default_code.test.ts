import { expect, test } from "bun:test";
import { REWARD } from "../../../../lib/training/sums.ts";
import { codeFor, ENVIRONMENT, isStart } from "./default_code.ts";

test("the code uses the column that holds the answer", () => {
  expect(codeFor(["prompt", "answer", "note"])).toBe(REWARD);
  expect(codeFor(["prompt", "note", "solution"])).toContain("def reward(completions, solution, **kwargs)");
  expect(codeFor(["prompt", "capital"])).toContain("zip(completions, capital)");
});

test("code to begin with is recognized until a person changes it", () => {
  for (const code of [REWARD, ENVIRONMENT, codeFor(["capital"]), codeFor([])]) {
    expect(isStart(code)).toBeTrue();
    expect(isStart(`${code}#`)).toBeFalse();
  }
});

test("columns that are no names of Python, and rows without an answer, get code that needs no column", () => {
  for (const columns of [
    ["prompt"],
    ["prompt", "the answer"],
    ["messages", "class"],
    ["prompt", "a'); import os #"],
    [],
  ])
    expect(codeFor(columns)).toContain("def reward(completions, **kwargs)");
});

import { expect, test } from "bun:test";
import { cpuMsOf } from "../../../test/cost.ts";
import { detectLanguage, languageOfFile } from "./language.ts";

test.each([
  ["def reward(completions, **kwargs):\n    return []", "python"],
  ["import re\n\nasync def reward(prompt, completion, row): ...", "python"],
  ['"""export function in words"""\nfrom math import sqrt\nreward = lambda completions, **k: []', "python"],
  ["class Judge:\n  def __call__(self, completions): ...\nreward = Judge()", "python"],
  ["export function reward({ completions }) { return [] }", "typescript"],
  ["// def is a word\nexport const reward = ({ completions }: any) => [];", "typescript"],
  ["export default async function ({ completions }) {}", "typescript"],
  ["function accuracy_reward() {}", "typescript"],
  ["hello there", undefined],
  ["", undefined],
] as const)("%j is %p", (source, language) => {
  expect(detectLanguage(source)).toBe(language as never);
});

test("the extension of a file decides, in upper or lower case", () => {
  expect(["a.py", "A.PY", "x.test.ts", "m.mjs", "a.txt", "py"].map(languageOfFile)).toEqual([
    "python",
    "python",
    "typescript",
    "javascript",
    undefined,
    undefined,
  ]);
});

test("a long line that may declare a class is read once", async () => {
  const line = `class ${"a".repeat(1 << 20)}`;
  expect(await cpuMsOf(() => expect(detectLanguage(line)).toBeUndefined())).toBeLessThan(5_000);
});

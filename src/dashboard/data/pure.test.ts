import { describe, expect, test } from "bun:test";
import { linePath, thinned } from "./curve.ts";
import { diff, type Part } from "./diff.ts";
import { rank } from "./search.ts";

describe("diff", () => {
  const shown = (parts: Part[]) =>
    parts.map(({ kind, text }) => ({ same: text, added: `+${text}+`, removed: `-${text}-` })[kind]);
  const before = (parts: Part[]) =>
    parts
      .filter(({ kind }) => kind !== "added")
      .map(({ text }) => text)
      .join("");
  const after = (parts: Part[]) =>
    parts
      .filter(({ kind }) => kind !== "removed")
      .map(({ text }) => text)
      .join("");

  test("shows words that were added and removed", () => {
    expect(shown(diff("The answer is 45.", "The answer is 55."))).toEqual(["The answer is ", "-45-", "+55+", "."]);
    expect(diff("same", "same")).toEqual([{ kind: "same", text: "same" }]);
    expect(diff("", "")).toEqual([]);
  });

  test("gives both texts back, whatever they are", () => {
    const texts = [
      "",
      "a",
      "a b c",
      "b a d\n\ne",
      "äöü ß 🙂 <b>x</b>",
      "x ".repeat(3000),
      `${"line\n".repeat(2500)}end`,
    ];
    for (const a of texts) for (const b of texts) expect([before(diff(a, b)), after(diff(a, b))]).toEqual([a, b]);
  });
});

test("a curve is thinned to its width and keeps its ends", () => {
  const many = Array.from({ length: 10_000 }, (_, i) => i);
  expect(thinned(many)).toHaveLength(120);
  expect([thinned(many)[0], thinned(many).at(-1)]).toEqual([0, 9999]);
  expect(linePath([0, 1], 10, 10)).toBe("M0.0,8.0L10.0,2.0");
  expect(linePath([5, 5], 10, 10)).toBe("M0.0,5.0L10.0,5.0");
  expect(linePath([Number.NaN], 10, 10)).toBe("");
});

test("search prefers whole parts at the beginning of words", () => {
  const find = (text: string) => rank(["Runs", "Rewards", "my-runs-2", "Datasets"], text, (name) => name);
  expect(find("run")).toEqual(["Runs", "my-runs-2"]);
  expect(find("rwd")).toEqual(["Rewards"]);
  expect(find("")).toHaveLength(4);
  expect(find("zzz")).toEqual([]);
});

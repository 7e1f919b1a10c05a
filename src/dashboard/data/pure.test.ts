import { describe, expect, test } from "bun:test";
import { linePath, thinned } from "./curve.ts";
import { diff, type Part } from "./diff.ts";
import { rank } from "./search.ts";
import { TALLEST_PX, visibleRows } from "./window.ts";

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

describe("rows on the screen", () => {
  const view = (scrollTop: number) => ({ scrollTop, height: 400 });
  test("are those at the scroll position, with some above and below", () => {
    expect(visibleRows(1000, 20, view(2000))).toEqual({ first: 92, count: 36, offset: 1840, total: 20_000 });
    expect(visibleRows(3, 20, view(0))).toMatchObject({ first: 0, count: 3, total: 60 });
    expect(visibleRows(0, 20, view(0))).toMatchObject({ count: 0, total: 0 });
  });

  test("of millions are all reachable, the last one too", () => {
    const rows = 5_000_000;
    const last = visibleRows(rows, 30, view(TALLEST_PX - 400));
    expect(last.total).toBe(TALLEST_PX);
    expect(last.first + last.count).toBe(rows);
    for (let top = 0; top < TALLEST_PX; top += 99_991) {
      const { first, count, offset } = visibleRows(rows, 30, view(top));
      const shift = top - offset; // pixels of the first row above the screen
      expect(shift).toBeGreaterThanOrEqual(0);
      expect(shift).toBeLessThan(30 * 9 + 1);
      expect(first + count).toBeLessThanOrEqual(rows);
    }
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

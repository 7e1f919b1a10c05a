import { describe, expect, test } from "bun:test";
import { parseSettings } from "../../cli/jobs/settings_file.ts";
import { parseYaml } from "./yaml.ts";

describe("S10: YAML without circles", () => {
  test.each([
    ["a: &x\n  b: *x\n", "job.yml:2: this is not valid YAML: a.b is an alias of a, which contains it."],
    ["a: 1\nb: &x\n  c: 1\n  d:\n    - 1\n    - *x\n", "job.yml:6: this is not valid YAML: b.d.1 is an alias of b"],
    ["&x\na: 1\nb: *x\n", "job.yml:3: this is not valid YAML: b is an alias of the whole file"],
    ["a: &x [1, *x]\n", "job.yml:1: this is not valid YAML: a.1 is an alias of a"],
  ])("%j names the file, the line and the alias", (text, message) => {
    expect(() => parseSettings("job.yml", text)).toThrow(message);
  });

  test("an anchor that is used twice is no circle", () => {
    const text = "a: &x { b: 1 }\nc: *x\nd:\n  <<: *x\n  e: [*x, *x]\n";
    expect(parseYaml(text)).toEqual({ a: { b: 1 }, c: { b: 1 }, d: { b: 1, e: [{ b: 1 }, { b: 1 }] } });
  });
});

describe("YAML of limited size", () => {
  const bomb = (levels: number, width: number) =>
    Array.from({ length: levels }, (_, i) => {
      const items = Array(width).fill(i === 0 ? "1" : `*a${i - 1}`);
      return `a${i}: &a${i} [${items.join(", ")}]`;
    }).join("\n");

  test.each([
    [6, 10],
    [9, 9],
    [40, 2],
    [99, 2],
  ])("%i levels of aliases with %i values each are refused", (levels, width) => {
    expect(() => parseYaml(bomb(levels, width))).toThrow(/aliases stand for more than|Excessive aliasing/);
  });

  test("nested values are refused at 100 levels, and not by the stack", () => {
    for (const levels of [101, 1_000, 100_000])
      expect(() => parseYaml("[".repeat(levels) + "]".repeat(levels))).toThrow("more than 100 levels deep");
    expect(() => parseYaml("[".repeat(99) + "]".repeat(99))).not.toThrow();
  });
});

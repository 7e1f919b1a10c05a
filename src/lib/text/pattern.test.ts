import { expect, test } from "bun:test";
import { compilePattern } from "./pattern.ts";

const occurs = (source: string, text: string, ignoreCase = false) => {
  const pattern = compilePattern(source, { ignoreCase });
  if ("error" in pattern) throw new Error(pattern.error);
  return pattern.occursIn(text);
};

const PIECES = ["a", "b", "ab", ".", "[ab]", "[^a]", "\\d", "\\w", "\\s", "(a|b)", "(?:ab|)", "\\bab", "^", "$", "a|b"];
const TIMES = ["", "", "*", "+", "?", "{2}", "{1,3}", "{0,}", "*?"];

test("random patterns give the answers of JavaScript", async () => {
  let seed = 7;
  const pick = <T>(list: readonly T[]): T => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return list[Math.floor((seed / 2 ** 31) * list.length)] as T;
  };
  for (let i = 0; i < 3_000; i++) {
    const source = Array.from({ length: 1 + (i % 4) }, () => {
      const piece = pick(PIECES);
      return /^[\^$]$|^\\b/.test(piece) || piece.includes("a|b") ? piece : piece + pick(TIMES);
    }).join("");
    const text = Array.from({ length: i % 7 }, () => pick(["a", "b", "A", "1", " ", "\n", "é"])).join("");
    for (const ignoreCase of [false, true])
      expect([source, text, ignoreCase, await occurs(source, text, ignoreCase)]).toEqual([
        ...[source, text, ignoreCase],
        new RegExp(source, ignoreCase ? "ui" : "u").test(text),
      ]);
  }
});

test.each<[string, string, boolean]>([
  ["^\\{\\d+\\}$", "{12}", true],
  ["x{,2}", "x{,2}", true],
  ["\\u{1f600}", "a😀", true],
  ["^.$", "😀", true],
  ["[\\d-]+$", "1-2", true],
  ["[a\\]]", "]", true],
  ["\\x41\\u0042", "AB", true],
  ["(?<year>\\d{4})-\\d\\d", "on 2026-11", true],
  ["\\.", "a", false],
  ["", "", true],
])("%s in %j: %p", async (source, text, wanted) => {
  expect(await occurs(source, text)).toBe(wanted);
});

test.each<[string, string]>([
  ["(a", "( without a )"],
  ["a)", ") without a ("],
  ["[a", "[ without a ]"],
  ["*a", "nothing before it to repeat"],
  ["a**", "two repetitions"],
  ["(a)\\1", "back reference"],
  ["(?=a)", "(?…) group that is not supported"],
  ["(?<!a)b", "(?…) group that is not supported"],
  ["\\p{L}", "\\p, which is not supported"],
  ["a{3,2}", "smaller than the first"],
  ["[b-a]", "out of order"],
  ["a\\", "ends with a \\"],
  ["((a{500}){500}){500}", "too large"],
  ["(".repeat(200), "groups inside each other"],
  ["a".repeat(3_000), "longer than"],
])("%.20s is refused: %s", (source, why) => {
  const pattern = compilePattern(source);
  expect("error" in pattern && pattern.error).toContain(why);
});

test("patterns that take exponential time elsewhere take linear time", async () => {
  for (const source of ["^(a+)+$", "^(a|a)*$", "^(a*)*b$", "^(.*)*(.*)*(.*)*x$", "a*a*a*a*a*b"]) {
    const startedAt = performance.now();
    expect(await occurs(source, `${"a".repeat(20_000)}!`)).toBe(false);
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  }
});

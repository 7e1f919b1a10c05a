import { describe, expect, test } from "bun:test";
import { randomFor, sweep } from "../../../../test/sweep.ts";
import { type Dialect, EVALUATORS, PatternError, REDACTION } from "./parse.ts";
import { Patterns } from "./patterns.ts";

const occurs = (source: string, text: string, ignoreCase = false) =>
  new Patterns([source], EVALUATORS, { ignoreCase }).occurIn(text);
const replaced = (sources: string[], text: string, dialect = REDACTION) =>
  new Patterns(sources, dialect).replace(text, "#");

/** RegExp is the judge. */
describe("random patterns give the answers of JavaScript", () => {
  const PIECES = [
    "a",
    "b",
    "ab",
    ".",
    "[ab]",
    "[^a]",
    "\\d",
    "\\w",
    "\\s",
    "(a|b)",
    "(?:ab|)",
    "\\bab",
    "^",
    "$",
    "a|b",
  ];
  const TIMES = ["", "", "*", "+", "?", "{2}", "{1,3}", "{0,}", "*?"];
  const CHARACTERS = ["a", "b", "A", "1", " ", "\n", "é"];
  const random = randomFor("patterns");
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const somePattern = (pieces: number) =>
    Array.from({ length: pieces }, () => {
      const piece = pick(PIECES);
      return /^[\^$]$|^\\b/.test(piece) || piece.includes("a|b") ? piece : piece + pick(TIMES);
    }).join("");
  const someText = (length: number, characters = CHARACTERS) => Array.from({ length }, () => pick(characters)).join("");

  test("whether they occur", async () => {
    for (let i = 0; i < sweep({ quick: 3_000, full: 30_000 }); i++) {
      const source = somePattern(1 + (i % 4));
      const text = someText(i % 7, [...CHARACTERS, "😀"]);
      for (const ignoreCase of [false, true])
        expect([source, text, ignoreCase, await occurs(source, text, ignoreCase)]).toEqual([
          ...[source, text, ignoreCase],
          new RegExp(source, ignoreCase ? "ui" : "u").test(text),
        ]);
    }
  });

  /** Tries every span of the text, in its place. */
  const coveredByRegExp = (source: string, text: string) => {
    const covered = new Set<number>();
    for (let from = 0; from < text.length; from++)
      for (let to = from + 1; to <= text.length; to++) {
        const span = new RegExp(`(?<=^[^]{${from}})(?:${source})(?=[^]{${text.length - to}}$)`);
        const found = span.exec(text);
        if (found?.index === from && found[0].length === to - from) for (let at = from; at < to; at++) covered.add(at);
      }
    return [...text].map((character, at) => (covered.has(at) ? "#" : character)).join("");
  };

  test("which characters they cover", () => {
    for (let i = 0; i < sweep({ quick: 1_000, full: 10_000 }); i++) {
      const source = somePattern(1 + (i % 4));
      const text = someText(i % 7);
      const expected = coveredByRegExp(source, text);
      for (const blockLength of [256, 1 + (i % 3)]) {
        const patterns = new Patterns([source], { ...REDACTION, mayBeEmpty: true }, { blockLength });
        const parts = patterns.replace(text, "\0")?.split("\0");
        expect([source, text, parts]).toEqual([source, text, expected.split(/#+/)]);
      }
    }
  });
});

test.each<[string, string, boolean]>([
  ["^\\{\\d+\\}$", "{12}", true],
  ["x{,2}", "x{,2}", true],
  ["\\u{1f600}", "a😀", true],
  ["^.$", "😀", true],
  ["^..$", "😀", false],
  ["[\\d-]+$", "1-2", true],
  ["[a\\]]", "]", true],
  ["[^]a", "]a", true],
  ["[]", "a", false],
  ["\\x41\\u0042", "AB", true],
  ["\\0", "\0", true],
  ["(?<year>\\d{4})-\\d\\d", "on 2026-11", true],
  ["\\.", "a", false],
  ["a**b", "aab", true],
  ["^a{2}{3}$", "aaaaaa", true],
  ["(?i)STOP", "please stop", true],
  ["(?i)É", "é", false],
  ["a\\sb", "a\u2009b", true],
  ["^.{0,1000}$", "x".repeat(1_000), true],
  ["^.{0,1000}$", "x".repeat(1_001), false],
  ["", "", true],
])("%s in %j: %p", async (source, text, wanted) => {
  expect(await occurs(source, text)).toBe(wanted);
});

test("letters of all scripts have two cases if case is ignored", async () => {
  expect(await occurs("É[а-я]\\u{10400}", "éЖ\u{10428}", true)).toBe(true);
  expect(await occurs("[^é]", "É", true)).toBe(false);
});

/** Every character that a RegExp would replace must be replaced. */
describe("every covered character is replaced", () => {
  const CASES: [pattern: string, text: string, expected: string][] = [
    ["abc", "xabcx abc", "x#x #"],
    ["\\d{16}", "card 4111111111111111.", "card #."],
    ["\\b\\d{3}\\b", "12 123 1234 (567)", "12 # 1234 (#)"],
    ["\\Bb", "b ab", "b a#"],
    ["[\\w.+-]+@[\\w-]+(\\.[a-z]{2,})+", "write to ann.b+c@mail.example.org now", "write to # now"],
    ["(?i)secret: ?\\S+", "The SECRET: hunter2 is", "The # is"],
    ["a|bc|d*e", "abcddde", "#"],
    ["x[^\\s,]{2,4}?y", "xaay xay xaaaaay", "# xay xaaaaay"],
    ["(ab){2}", "ab abab ababab", "ab # #"],
    ["é+\\u00df", "ééß e", "# e"],
    ["[\\]-]", "a]b-c", "a#b#c"],
    ["a.c", "abc a\nc", "# a\nc"],
    ["😀", "x😀y", "x#y"],
    ["\\u{1f600}", "x😀y", "x#y"],
    ["[]a]+", "x]ay", "x#y"],
    ["\\[[^]]+\\]", "x[ab]y", "x#y"],
    ["key \\S{4}", "key 😀😀!", "#!"],
    ["secret:\\S+", "secret:a\u2009b c", "# c"],
    ["(?i)É", "é É", "é #"],
    ["^a", "aa", "#a"],
    ["a$", "aa", "a#"],
    ["(?<key>k\\d)", "k1 k", "# k"],
    ["a{501}", "a".repeat(501), "#"],
  ];
  test.each(CASES)("%s", (pattern, text, expected) => {
    expect(replaced([pattern], text)).toBe(expected);
  });

  test("several patterns at once, and text that none of them matches stays as it is", () => {
    expect(replaced(["\\d+", "[A-Z]{3}"], "a1b22 ABCD x")).toBe("a#b# # x"); // ABC and BCD cover ABCD
    const text = "nothing here";
    expect(replaced(["\\d+", "[A-Z]{3}"], text)).toBe(text);
  });

  test("matches longer than a block, and characters of two code units", () => {
    const long = "x".repeat(1_000);
    expect(replaced(["<x+>"], `${long}<${long}>${long}<${long}`)).toBe(`${long}#${long}<${long}`);
    expect(replaced(["<[^>]+>"], `${long}<${"😀".repeat(700)}>😀`, EVALUATORS)).toBe(`${long}#😀`);
  });
});

describe("patterns outside the syntax are refused with a reason", () => {
  const BAD: [string, string][] = [
    ["(a", "( without a )"],
    ["a)", ") without a ("],
    ["[a", "[ without a ]"],
    ["*a", "nothing before it to repeat"],
    ["+a", "nothing before it"],
    ["\\b*", "repeats ^, $ or \\b"],
    ["(a)\\1", "uses \\1, a back reference"],
    ["(?=a)", "(?…) group that is not supported"],
    ["(?=a)b", "Lookaround"],
    ["(?<!a)b", "(?…) group that is not supported"],
    ["a(?i)b", "(?…) group that is not supported"],
    ["\\p{L}", "\\p, which is not supported"],
    ["\\u12", "without four hexadecimal digits"],
    ["a{3,2}", "out of order"],
    ["a{9,2}", "out of order"],
    ["a{1001}", "more than 1000"],
    ["[b-a]", "out of order"],
    ["a\\", "ends with a \\"],
    ["((a{500}){500}){500}", "too large"],
    ["((a{400}){400})", "too large"],
    ["(".repeat(200), "groups inside each other"],
    ["a".repeat(2_001), "longer than 2000"],
  ];
  const DIALECTS: [string, Dialect][] = [
    ["evaluators", EVALUATORS],
    ["redaction", REDACTION],
  ];
  for (const [name, dialect] of DIALECTS)
    test.each(BAD)(`%.20s, ${name}: %s`, (pattern, reason) => {
      expect(() => new Patterns([pattern], dialect)).toThrow(PatternError);
      expect(() => new Patterns([pattern], dialect)).toThrow(reason);
    });

  test.each(["a*", "", "\\b", "^$"])("%j matches the empty text, which redaction refuses", async (pattern) => {
    expect(() => new Patterns([pattern], REDACTION)).toThrow("matches the empty text");
    new Patterns([pattern], EVALUATORS);
  });
});

describe("hostile patterns", () => {
  test("those that take exponential time elsewhere take linear time", async () => {
    for (const source of ["^(a+)+$", "^(a|a)*$", "^(a*)*b$", "^(.*)*(.*)*(.*)*x$", "a*a*a*a*a*b"])
      expect(await occurs(source, `${"a".repeat(20_000)}!`)).toBe(false);
    const evil = new Patterns(["(a+)+b", "(a|aa)*c", "a*a*a*d", "(\\w+\\s?)*!x"], REDACTION);
    const text = "a".repeat(200_000);
    expect(evil.replace(text, "#")).toBe(text); // a RegExp would need longer than this test may take
    expect(evil.replace(`${text}b.`, "#")).toBe("#.");
  });

  test("nested repetitions of nothing are compiled at once", async () => {
    expect(await occurs(`${"(".repeat(20)}a{0}${"){999}".repeat(20)}b`, "b")).toBe(true);
  });

  test("a text that needs a new set of states for each character keeps little memory", () => {
    const random = randomFor("sets of states");
    const text = Array.from({ length: 60_000 }, () => (random() < 0.5 ? "a" : "b")).join("");
    const patterns = new Patterns(["a[ab]{400}[cd]"], REDACTION);
    Bun.gc(true);
    const before = process.memoryUsage().heapUsed;
    expect(patterns.replace(text, "#")).toBe(text);
    Bun.gc(true);
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(32 * 1024 * 1024);
    expect(patterns.replace(`${"b".repeat(500)}a${"b".repeat(400)}c${text}`, "#")).toBe(`${"b".repeat(500)}#${text}`);
    expect(patterns.replace(text, "#", 1_000_000)).toBeUndefined();
    expect(patterns.replace("b".repeat(1_000_000), "#", 1_000_000)).toHaveLength(1_000_000);
  });
});

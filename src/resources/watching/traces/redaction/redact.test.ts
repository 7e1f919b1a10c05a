import { describe, expect, test } from "bun:test";
import { Automaton } from "./automaton.ts";
import { PatternError, parsePattern } from "./pattern.ts";
import { Redactor, secretForms } from "./redact.ts";

const replaced = (patterns: string[], text: string) => new Automaton(patterns.map(parsePattern)).replace(text, "#");

/** RegExp is the judge: every character that it would replace must be replaced. */
describe("the automaton replaces what a RegExp would replace", () => {
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
  ];
  test.each(CASES)("%s", (pattern, text, expected) => {
    expect(replaced([pattern], text)).toBe(expected);
  });

  test("several patterns at once, and text that none of them matches stays as it is", () => {
    expect(replaced(["\\d+", "[A-Z]{3}"], "a1b22 ABCD x")).toBe("a#b# # x"); // ABC and BCD cover ABCD
    const text = "nothing here";
    expect(replaced(["\\d+", "[A-Z]{3}"], text)).toBe(text);
  });
});

describe("patterns outside the subset are rejected with a reason", () => {
  const BAD: [string, string][] = [
    ["(a)\\1", "uses \\1"],
    ["(?=a)b", "lookaround"],
    ["^a", "uses ^"],
    ["a$", "uses $"],
    ["a*", "matches the empty text"],
    ["(a", "without a )"],
    ["a)", "without a ("],
    ["[a", "[ ]"],
    ["a{9,2}", "out of order"],
    ["a{501}", "more than 500"],
    ["+a", "nothing before it"],
    ["((a{400}){400})", "too large"],
    ["x".repeat(301), "longer than"],
  ];
  test.each(BAD)("%s", (pattern, reason) => {
    expect(() => new Automaton([parsePattern(pattern)])).toThrow(PatternError);
    expect(() => new Automaton([parsePattern(pattern)])).toThrow(reason);
  });
});

test("patterns that make a backtracking engine hang take a time in proportion to the text", () => {
  const evil = new Automaton(["(a+)+b", "(a|aa)*c", "a*a*a*d", "(\\w+\\s?)*!x"].map(parsePattern));
  const text = "a".repeat(200_000);
  expect(evil.replace(text, "#")).toBe(text); // a RegExp would need longer than this test may take
  expect(evil.replace(`${text}b.`, "#")).toBe("#.");
});

test("credentials and the values of secrets are removed without a pattern", () => {
  const redactor = new Redactor(["\\bproject-\\w+"]);
  const key = `vk_${"Ab3".repeat(14)}x`;
  const secrets = secretForms(['p"ss\nword', "tiny"]);
  const value = {
    messages: [{ role: "user", content: `key ${key} and p"ss\nword for project-x` }],
    calls: [{ arguments: JSON.stringify({ password: 'p"ss\nword' }) }],
    [`header ${key}`]: 1,
    keeps: [null, true, 2, "tiny"],
  };
  const text = JSON.stringify(redactor.value(value, secrets));
  for (const secret of [key, JSON.stringify('p"ss\nword').slice(1, -1), "project-x"])
    expect(text).not.toContain(secret);
  expect(JSON.parse(text)).toMatchObject({
    messages: [{ role: "user", content: "key [redacted] and [redacted] for [redacted]" }],
    keeps: [null, true, 2, "tiny"],
  });
  const pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/IBAA=\nKCAQEAz7\n-----END RSA PRIVATE KEY-----";
  expect(redactor.text(`a ${pem} b`)).toBe("a [redacted] b");
  expect(redactor.text("Authorization: Bearer abcdefghijklmnop1234")).toBe("Authorization: [redacted]");
});

test("a secret that begins with another one leaves nothing", () => {
  const secrets = secretForms(["password", "password-and-more"]);
  expect(new Redactor().text("it is password-and-more or password", secrets)).toBe("it is [redacted] or [redacted]");
});

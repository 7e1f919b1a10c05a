import { expect, test } from "bun:test";
import { escapeKey, escapePrefix, newStaging, readStaging, sectionsAfter, unescapeKey } from "./names.ts";

const KEYS = [
  "B",
  "a",
  "a !",
  "a b",
  "a!",
  "a! ",
  "a!b",
  'a"',
  "a%",
  "a-b",
  "a.b",
  "a/b",
  "a/b-",
  "a/b/c",
  "a/b0",
].concat(["a/c", "a0", "a0/b", "a=", "b", "é", "日", "ａ", "😀"]);
const compare = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
const NAMES = KEYS.map(escapeKey);

test("names sort as their keys do, and each name gives its key", () => {
  expect(NAMES.toSorted(compare).map(unescapeKey)).toEqual(KEYS.toSorted(compare));
  expect(unescapeKey("somebody's file")).toBeUndefined();
});

test("no name is the directory of another", () => {
  for (const name of NAMES) expect(NAMES.filter((other) => other.startsWith(`${name}/`))).toEqual([]);
});

test("the sections after a name together cover all later names, and none starts with a slash", () => {
  const sorted = NAMES.toSorted(compare);
  for (const prefix of ["", "a", "a/", "a/b", "a/b/", "z"].map(escapePrefix))
    for (const after of sorted) {
      const sections = sectionsAfter(prefix, after);
      for (const each of sections) expect(each.after.slice(each.prefix.length)).not.toContain("/");
      const found = sections.flatMap((each) =>
        sorted.filter((name) => name.startsWith(each.prefix) && compare(name, each.after) > 0),
      );
      expect(found).toEqual(sorted.filter((name) => name.startsWith(prefix) && compare(name, after) > 0));
    }
});

test("a staging name is recognised, and no other name is", () => {
  for (const staging of [
    { parts: undefined, expiresAt: 1_800_000_000_000 },
    { parts: 10_000, expiresAt: 0 },
  ])
    expect(readStaging(newStaging(staging))).toEqual(staging);
  for (const other of ["", "../refs/a!0", "put-1-x", `put-1-${"0".repeat(32)}/x`])
    expect(readStaging(other)).toBeUndefined();
});

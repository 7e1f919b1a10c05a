import { expect, test } from "bun:test";
import { tokensOf } from "./tokens.ts";

const kinds = (source: string, isPython = true) =>
  tokensOf(source, isPython)
    .filter(({ kind }) => kind !== "plain")
    .map(({ kind, text }) => `${kind} ${text}`);

test("Python and TypeScript are told apart by their comments", () => {
  expect(kinds("def f(a): # note\n  return a // 2")).toEqual([
    "keyword def",
    "comment # note",
    "keyword return",
    "number 2",
  ]);
  expect(kinds("const a = '#1' // note", false)).toEqual(["keyword const", "string '#1'", "comment // note"]);
});

test("no text is lost, whatever is typed", () => {
  for (const text of ['"""open', "'", "`a\nb", "/* x", "a#b", "x = 'it\\'s' + 1.5e3", "", "<script>"])
    for (const isPython of [true, false])
      expect(
        tokensOf(text, isPython)
          .map((each) => each.text)
          .join(""),
      ).toBe(text);
});

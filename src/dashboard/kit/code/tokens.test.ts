import { expect, test } from "bun:test";
import { type CodeLanguage, tokensOf } from "./tokens.ts";

const kinds = (source: string, language: CodeLanguage = "python") =>
  tokensOf(source, language)
    .filter(({ kind }) => kind !== "plain")
    .map(({ kind, text }) => `${kind} ${text}`);

test("Python and TypeScript are told apart by their comments", () => {
  expect(kinds("def f(a): # note\n  return a // 2")).toEqual([
    "keyword def",
    "comment # note",
    "keyword return",
    "number 2",
  ]);
  expect(kinds("const a = '#1' // note", "typescript")).toEqual(["keyword const", "string '#1'", "comment // note"]);
});

test("JSON has keys and no comments", () => {
  expect(kinds('{"a" : "b:", "c": [1, null]} // #', "json")).toEqual([
    'key "a"',
    'string "b:"',
    'key "c"',
    "number 1",
    "keyword null",
  ]);
});

test("no text is lost, whatever is typed", () => {
  for (const text of ['"""open', "'", "`a\nb", "/* x", "a#b", "x = 'it\\'s' + 1.5e3", "", "<script>", '{"a":'])
    for (const language of ["python", "typescript", "json"] as const)
      expect(
        tokensOf(text, language)
          .map((each) => each.text)
          .join(""),
      ).toBe(text);
});

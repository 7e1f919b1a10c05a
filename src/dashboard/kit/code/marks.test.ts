import { expect, test } from "bun:test";
import { jsonLineMarks, jsonMark, marksOf, placeIn } from "./marks.ts";

const shown = (text: string) => {
  const mark = jsonMark(text);
  return mark && `${mark.line}:${mark.column} ${mark.message}`;
};

test("the first wrong place of a JSON text has a line, a column and a sentence", () => {
  for (const [text, mark] of [
    ['{"a": 1,}', "1:9 a name in double quotes is missing"],
    ['{\n  "a": 1\n  "b": 2\n}', "3:3 a comma or } is missing"],
    ["[1 2]", "1:4 a comma or ] is missing"],
    ["{'a': 1}", "1:2 JSON takes double quotes"],
    ['{"a" 1}', "1:6 a colon is missing"],
    ['{"a": }', "1:7 a value is missing"],
    ['{"a": [1, {"b": 2}]', "1:20 a comma or } is missing"],
    ['{"a": True}', "1:7 True is not JSON"],
    ['["open]', "1:2 the text in quotes does not end, or has a \\ or a line break that JSON does not allow"],
    ["{} {}", "1:4 the text must end here"],
    ["[,]", "1:2 a value or ] is missing"],
    ["01", "1:1 01 is not JSON"],
  ] as const)
    expect([text, shown(text)]).toEqual([text, mark]);
});

test("what JSON.parse takes has no mark, and what it refuses has one", () => {
  const parts = ["{", "}", "[", "]", ",", ":", '"a"', "1", "-0.5e3", "null", " ", "\n", "x", '"'];
  for (let n = 0; n < parts.length ** 4; n += 7) {
    const text = [1, 14, 196, 2744].map((each) => parts[Math.floor(n / each) % parts.length]).join("");
    let isJson = text.trim() === "";
    try {
      JSON.parse(text);
      isJson = true;
    } catch {}
    expect([text, jsonMark(text) === undefined]).toEqual([text, isJson]);
    expect([text, jsonMark(text)?.message]).not.toEqual([text, "this is not JSON"]);
  }
});

test("each line of JSON lines is marked by itself", () => {
  expect(jsonLineMarks('{"a": 1}\n\n{"a"}\n[').map(({ line }) => line)).toEqual([3, 4]);
});

test("a fault names its line, or is shown at the first one", () => {
  expect(marksOf("line 3, column 5: x")).toMatchObject([{ line: 3, column: 5 }]);
  expect(marksOf("no number")).toMatchObject([{ line: 1, column: null }]);
  expect(marksOf(undefined)).toEqual([]);
});

test("the position of an error is read from the message of the sandbox", () => {
  expect(placeIn("The reward source cannot be run: line 3, column 5: invalid syntax")).toEqual({ line: 3, column: 5 });
  expect(placeIn("line 12: bad")).toEqual({ line: 12, column: null });
  expect(placeIn("The reward processes are busy")).toBeUndefined();
});

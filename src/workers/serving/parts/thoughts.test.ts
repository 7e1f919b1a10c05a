import { expect, test } from "bun:test";
import { createThoughtSplitter, knowsThoughts, opensThought } from "./thoughts.ts";

const split = (pieces: readonly string[], opened = false) => {
  const splitter = createThoughtSplitter(opened);
  const parts = [...pieces.map((piece) => splitter.push(piece)), splitter.end()];
  return [parts.map(({ thoughts }) => thoughts).join(""), parts.map(({ text }) => text).join("")];
};

test.each<[string, readonly string[], boolean, string, string]>([
  ["a thought in one piece", ["<think>a</think>\n\nb"], false, "a", "b"],
  ["a thought in many pieces", ["\n<th", "ink>\na b", "</thi", "nk>", "\n", "c", " d"], false, "a b", "c d"],
  ["a prompt that opened the thought", ["a", "</think>b"], true, "a", "b"],
  ["a thought that does not end", ["<think>a</thi"], false, "a</thi", ""],
  ["no thought", ["<b>", " c"], false, "", "<b> c"],
  ["a tag after the start", ["a <think>b</think>"], false, "", "a <think>b</think>"],
  ["the start of a tag", ["<thi"], false, "", "<thi"],
])("%s", (_what, pieces, opened, thoughts, text) => expect(split(pieces, opened)).toEqual([thoughts, text]));

test("the template says whether a model writes thoughts, the prompt whether one is open", () => {
  expect([knowsThoughts("{{ '<think></think>' }}"), knowsThoughts("{{ x }}"), knowsThoughts(null)]).toEqual([
    true,
    false,
    false,
  ]);
  expect([opensThought("a<think>\n"), opensThought("a")]).toEqual([true, false]);
});

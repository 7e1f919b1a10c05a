import { expect, test } from "bun:test";
import { createThoughtSplitter, type ThoughtTags, thoughtState, thoughtTags } from "./thoughts.ts";

const THINK = thoughtTags("{{ '<think></think>' }}") as ThoughtTags;

const split = (pieces: readonly string[], opened = false, tags = THINK) => {
  const splitter = createThoughtSplitter(tags, opened);
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
  ["calls inside a thought", ["a<|tool_calls_", "section_begin|>b"], true, "a", "<|tool_calls_section_begin|>b"],
])("%s", (_what, pieces, opened, thoughts, text) => expect(split(pieces, opened)).toEqual([thoughts, text]));

test.each([
  ["<think>", "</think>"],
  ["[THINK]", "[/THINK]"],
  ["<seed:think>", "</seed:think>"],
  ["<mm:think>", "</mm:think>"],
  ["<|START_THINKING|>", "<|END_THINKING|>"],
  ["<|channel>thought\n", "<channel|>"],
  ["<|inner_prefix|>", "<|inner_suffix|>"],
])("thoughts between %s and %s, in any pieces", (open, close) => {
  const tags = thoughtTags(`a ${open} b ${close}`) as ThoughtTags;
  expect(tags).toMatchObject({ open, close });
  const text = `${open}one two${close}\nthree`;
  for (let size = 1; size <= text.length; size++) {
    const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, i) =>
      text.slice(i * size, (i + 1) * size),
    );
    expect(split(pieces, false, tags)).toEqual(["one two", "three"]);
  }
});

test("the template says whether a model writes thoughts, the prompt where the answer begins", () => {
  expect([thoughtTags("{{ x }}"), thoughtTags(null)]).toEqual([undefined, undefined]);
  expect(["a<think>\n", "a<think>\n\n</think>\n\n", "a"].map((text) => thoughtState(text, THINK))).toEqual([
    "inside",
    "behind",
    "before",
  ]);
});

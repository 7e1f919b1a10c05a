import { expect, test } from "bun:test";
import { type ExactFacts, reasonNotExact } from "./exact.ts";

const FACTS: ExactFacts = {
  wanted: null,
  lora: { dropout: 0 },
  in4Bit: false,
  maxCompletionLength: 512,
  hasTurns: false,
  notDrawn: null,
  majors: [9],
};
const reason = (over: Partial<ExactFacts>) => reasonNotExact({ ...FACTS, ...over });

test("jobs that allow it sample exactly on GPUs of compute capability 9, unless the field is false", () => {
  expect(reason({})).toBeNull();
  expect(reason({ wanted: true })).toBeNull();
  expect(reason({ majors: [9, 9] })).toBeNull();
  expect(reason({ wanted: false })).toBe("exact_sampling is false");
});

test.each<[string, Partial<ExactFacts>]>([
  ["all weights are trained, not an adapter", { lora: null }],
  ["the adapter has a dropout of 0.1", { lora: { dropout: 0.1 } }],
  ["load_in_4bit is true", { in4Bit: true }],
  ["our kernels do not draw from this model: heads of 80 numbers", { notDrawn: "heads of 80 numbers" }],
  ["there is no GPU", { majors: [null] }],
  ["there is no GPU", { majors: [9, null] }],
  ["the GPUs have different compute capabilities, which sum in different orders", { majors: [9, 8] }],
])("neither by default nor on demand: %s", (why, over) => {
  expect(reason(over)).toBe(why);
  expect(reason({ ...over, wanted: true })).toBe(why);
});

test.each<[string, Partial<ExactFacts>]>([
  ["it is slower on a GPU of compute capability 8", { majors: [8] }],
  ["it is slower on a GPU of compute capability 12", { majors: [12, 8] }],
  [
    "exact_sampling is null, which means exact only for a max_completion_length from 256 to 1024",
    { maxCompletionLength: 255 },
  ],
  [
    "exact_sampling is null, which means exact only for a max_completion_length from 256 to 1024",
    { maxCompletionLength: 1025 },
  ],
])("on demand only: %s", (why, over) => {
  expect(reason(over)).toBe(why);
  expect(reason({ ...over, wanted: true })).toBeNull();
});

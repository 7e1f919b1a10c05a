import { expect, test } from "bun:test";
import { conversationOf, filePreviewOf, lineOf, previewOf, proposedMap, restOf, turnsOf } from "./turns.ts";

test("a row of each format becomes turns", () => {
  expect(turnsOf({ prompt: "1+1?", answer: "2" })).toEqual([{ role: "user", text: "1+1?" }]);
  expect(turnsOf({ prompt: "a", completion: "b" }).map(({ role }) => role)).toEqual(["user", "assistant"]);
  expect(
    turnsOf({
      messages: [
        { role: "system", content: "s" },
        { role: "user", content: ["x"] },
      ],
    }),
  ).toEqual([
    { role: "system", text: "s" },
    { role: "user", text: '["x"]' },
  ]);
  expect(turnsOf({ prompt: "p", chosen: [{ role: "assistant", content: "c" }], rejected: "r" })).toEqual([
    { role: "user", text: "p" },
    { role: "chosen: assistant", text: "c" },
    { role: "rejected", text: "r" },
  ]);
  expect(restOf({ prompt: "p", answer: 4 })).toEqual([["answer", 4]]);
  expect(lineOf({ prompt: "1\n+1?", answer: 2 })).toBe("1 +1? · answer: 2");
});

test("the preview of a file names its wrong lines and drops a cut line", () => {
  const { rows, format, faults } = previewOf('{"prompt":"a"}\n\n[1]\n{"promt":"b"}\n{"prompt":', false);
  expect([rows.length, format]).toEqual([1, "prompt"]);
  expect(faults.map(({ line }) => line)).toEqual([3, 4]);
  expect(previewOf('{"prompt":"a"}', true).rows).toEqual([{ prompt: "a" }]);
});

test("the preview of an upload shows the rows as they will be stored, if the page can read the file", () => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const alpaca = { instruction: "a", output: "b" };
  const stored = { shape: "alpaca", format: "completion", rows: [{ prompt: "a", completion: "b" }], faults: [] };
  expect(filePreviewOf(bytes(`${JSON.stringify(alpaca)}\n`), "a.jsonl", true)).toEqual(stored as never);
  expect(filePreviewOf(bytes(JSON.stringify([alpaca], null, 1)), "a.json", true)).toEqual(stored as never);
  expect(filePreviewOf(bytes("[{"), "a.json", true)?.faults).toHaveLength(1);
  const other = filePreviewOf(bytes('{"question":"a","answer":"b"}'), "a.jsonl", true);
  expect([other?.shape, other?.faults.length]).toEqual([undefined, 1]);
  for (const [name, text, isWhole] of [
    ["a.csv", "instruction,output\na,b\n", true],
    ["a.parquet", "PAR1", true],
    ["a.json", "[{", false],
  ] as const)
    expect(filePreviewOf(bytes(text), name, isWhole)).toBeUndefined();
  const question =
    "Row 1: prompt is missing. Name the fields with `map`, for example question=prompt,answer=completion";
  expect([proposedMap(question), proposedMap("other")]).toEqual(["question=prompt,answer=completion", undefined]);
});

test("a row becomes the conversation that a template renders", () => {
  const user = { role: "user", content: "p" };
  const answer = { role: "assistant", content: "a" };
  expect(conversationOf({ prompt: "p", answer: 4 })).toEqual({
    messages: [user],
    tools: [],
    add_generation_prompt: true,
  });
  const whole = { messages: [user, answer], tools: [], add_generation_prompt: false };
  expect(conversationOf({ prompt: "p", completion: "a" })).toEqual(whole);
  expect(conversationOf({ prompt: [user], chosen: [answer], rejected: "r" })).toEqual(whole);
  expect(conversationOf({ messages: [user, answer], tools: [{ type: "function" }] })).toEqual({
    ...whole,
    tools: [{ type: "function" }],
  });
});

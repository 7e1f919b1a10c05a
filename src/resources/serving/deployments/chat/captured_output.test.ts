import { expect, test } from "bun:test";
import { CapturedOutput } from "./captured_output.ts";

const encoder = new TextEncoder();
const chunk = (delta: object, index = 0) => `data: ${JSON.stringify({ id: "x", choices: [{ index, delta }] })}\n\n`;

/** Sends a stream in parts of `size` bytes, which end anywhere. */
function captured(text: string, size: number): CapturedOutput {
  const output = new CapturedOutput();
  const bytes = encoder.encode(text);
  for (let at = 0; at < bytes.length; at += size) output.add(bytes.subarray(at, at + size));
  return output;
}

test("a stream is put together wherever its parts end: texts of each choice, and calls of tools", () => {
  const call = (part: object) => ({ tool_calls: [{ index: 0, ...part }] });
  const stream = [
    chunk({ role: "assistant", content: "Gr\u00fc" }),
    chunk({ content: "other" }, 1),
    ": still here\n\n",
    chunk({ content: "\u00dfe \ud83d\ude00" }),
    chunk(call({ id: "call_1", type: "function", function: { name: "weather", arguments: "" } })),
    chunk(call({ function: { arguments: '{"a":' } })),
    chunk(call({ function: { arguments: "1}" } })),
    "data: [DONE]\n\n",
  ].join("");
  const tool_calls = [{ id: "call_1", type: "function", function: { name: "weather", arguments: '{"a":1}' } }];
  const expected = {
    output: [
      { role: "assistant", content: "Gr\u00fc\u00dfe \ud83d\ude00", tool_calls },
      { role: "assistant", content: "other" },
    ],
    toolCalls: ["weather"],
  };
  for (const size of [1, 7, 10_000]) expect(captured(stream, size).read()).toEqual(expected);
});

test("a long answer is captured, although its stream is many times as long", () => {
  const output = captured(chunk({ content: "word " }).repeat(100_000), 100_000);
  expect(output.read()?.output).toEqual([{ role: "assistant", content: "word ".repeat(100_000) }]);
});

test("an answer of more than 1 MiB is not captured, and takes no more memory", () => {
  const output = captured(chunk({ content: "x".repeat(1_000) }).repeat(3_000), 50_000);
  expect(output.read()).toBeUndefined();
  expect(output.bytes).toBeLessThan(1_300_000);
  const whole = new CapturedOutput();
  whole.set("x".repeat(2_000_000));
  expect(whole.read()).toBeUndefined();
});

test("a stream that broke off gives what had come", () => {
  const text = chunk({ content: "begun" }) + chunk({ content: " and cut" }).slice(0, 20);
  expect(captured(text, 9).read()?.output).toEqual([{ role: "assistant", content: "begun" }]);
  expect(captured("", 1).read()).toEqual({ output: null, toolCalls: [] });
});

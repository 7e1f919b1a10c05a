import { expect, test } from "bun:test";
import { ConversionError, convertRow } from "./convert.ts";
import type { Row } from "./format.ts";
import type { Shape } from "./shape.ts";

const faultOf = (row: Row, shape: Shape): string => {
  try {
    convertRow(row, shape);
  } catch (error) {
    if (error instanceof ConversionError) return error.message;
    throw error;
  }
  return "converted";
};

const human = { from: "human", value: "Hi" };
const question = { role: "user", content: "Hi" };
const call = (args: unknown) => JSON.stringify({ name: "add", arguments: args });
const called = (args: string) => ({
  role: "assistant",
  content: null,
  tool_calls: [{ type: "function", function: { name: "add", arguments: args } }],
});

test.each<[string, Row, Row]>([
  [
    "turns become messages",
    { conversations: [human, { from: "gpt", value: "Yes" }] },
    { messages: [question, { role: "assistant", content: "Yes" }] },
  ],
  ["a role is known in every case", { conversations: [{ from: "Human", value: "Hi" }] }, { messages: [question] }],
  [
    "an unknown role stays",
    { conversations: [{ from: "narrator", value: "x" }] },
    { messages: [{ role: "narrator", content: "x" }] },
  ],
  [
    "what a tool answers",
    {
      conversations: [
        { from: "observation", value: "3" },
        { from: "tool_response", value: "4" },
      ],
    },
    {
      messages: [
        { role: "tool", content: "3" },
        { role: "tool", content: "4" },
      ],
    },
  ],
  ["a turn that is a message already", { conversations: [question] }, { messages: [question] }],
  [
    "other fields of a turn stay",
    { conversations: [{ ...human, weight: 0 }] },
    { messages: [{ ...question, weight: 0 }] },
  ],
  [
    "a call with its arguments",
    { conversations: [human, { from: "function_call", value: call({ a: 1 }) }] },
    { messages: [question, called('{"a":1}')] },
  ],
  [
    "a call whose arguments are text",
    { conversations: [{ from: "function_call", value: call('{"a":1}') }] },
    { messages: [called('{"a":1}')] },
  ],
  [
    "the system text comes first",
    { system: "Be kind", conversations: [human], id: 7 },
    { messages: [{ role: "system", content: "Be kind" }, question], id: 7 },
  ],
  ["an empty system text is none", { system: "", conversations: [human] }, { messages: [question] }],
  [
    "a system message of its own wins",
    { system: "A", conversations: [{ from: "system", value: "B" }] },
    { messages: [{ role: "system", content: "B" }] },
  ],
  ["a system column of another kind stays", { system: 3, conversations: [human] }, { messages: [question], system: 3 }],
])("sharegpt: %s", (_, row, wanted) => {
  expect(convertRow(row, "sharegpt")).toEqual(wanted);
});

test.each<[Row, string]>([
  [{ conversations: "Hi" }, "conversations must be a list of turns"],
  [{ conversations: [human, "Hi"] }, "conversations[1] must be a turn"],
  [{ conversations: [human, { value: "Hi" }] }, "conversations[1].from must be a string"],
  [{ conversations: [human, { from: "function_call", value: "add" }] }, "conversations[1].value must be a call"],
])("sharegpt: %j is refused", (row, message) => {
  expect(faultOf(row, "sharegpt")).toStartWith(message);
});

test.each<[string, Row, Row]>([
  ["the instruction alone", { instruction: "Add", output: "3" }, { prompt: "Add", completion: "3" }],
  [
    "the input stands below it",
    { instruction: "Add", input: "1 2", output: "3" },
    { prompt: "Add\n\n1 2", completion: "3" },
  ],
  [
    "an empty input, and none",
    { instruction: "Add", input: null, output: "3", tag: "x" },
    { prompt: "Add", completion: "3", tag: "x" },
  ],
  [
    "a system text",
    { instruction: "Add", output: "3", system: "S" },
    {
      prompt: [
        { role: "system", content: "S" },
        { role: "user", content: "Add" },
      ],
      completion: "3",
    },
  ],
  [
    "an empty system text and history",
    { instruction: "Add", output: "3", system: "", history: [] },
    { prompt: "Add", completion: "3" },
  ],
  [
    "a history",
    { instruction: "Add", input: "1 2", output: "3", history: [["q", "a"]] },
    {
      prompt: [
        { role: "user", content: "q" },
        { role: "assistant", content: "a" },
        { role: "user", content: "Add\n\n1 2" },
      ],
      completion: "3",
    },
  ],
])("alpaca: %s", (_, row, wanted) => {
  expect(convertRow(row, "alpaca")).toEqual(wanted);
});

test.each<[Row, string]>([
  [{ instruction: 1, output: "3" }, "instruction must be a string"],
  [{ instruction: "Add", output: null }, "output must be a string"],
  [{ instruction: "Add", output: "3", input: 5 }, "input must be a string"],
  [{ instruction: "Add", output: "3", history: [["q", "a"], ["q"]] }, "history[1] must be a question and its answer"],
  [{ instruction: "Add", output: "3", history: ["q"] }, "history[0] must be a question and its answer"],
])("alpaca: %j is refused", (row, message) => {
  expect(faultOf(row, "alpaca")).toStartWith(message);
});

const said = (content: string) => ({ role: "assistant", content });

test.each<[string, Row, Row]>([
  [
    "texts share whole words",
    { chosen: "Say hi: hello", rejected: "Say hi: help" },
    { prompt: "Say hi:", chosen: " hello", rejected: " help" },
  ],
  [
    "a text that continues the other",
    { chosen: "One two", rejected: "One two three" },
    { prompt: "One two", chosen: "", rejected: " three" },
  ],
  [
    "an empty prompt column goes",
    { prompt: "", chosen: "A b", rejected: "A c", id: 1 },
    { prompt: "A", chosen: " b", rejected: " c", id: 1 },
  ],
  [
    "messages share their beginning",
    { chosen: [question, said("a")], rejected: [question, said("b")] },
    { prompt: [question], chosen: [said("a")], rejected: [said("b")] },
  ],
  [
    "the last message of each is its answer",
    { chosen: [question, said("a")], rejected: [question, said("a"), question, said("b")] },
    { prompt: [question], chosen: [said("a")], rejected: [said("a"), question, said("b")] },
  ],
  [
    "an answer is no end of a prompt",
    { chosen: [question, said("a"), question], rejected: [question, said("a"), { role: "user", content: "?" }] },
    { prompt: [question], chosen: [said("a"), question], rejected: [said("a"), { role: "user", content: "?" }] },
  ],
])("implicit preference: %s", (_, row, wanted) => {
  expect(convertRow(row, "implicit_preference")).toEqual(wanted);
});

test.each<[Row, string]>([
  [{ chosen: "Hello", rejected: "Help" }, "prompt is missing, and chosen and rejected do not have the same beginning"],
  [{ chosen: " a", rejected: " b" }, "prompt is missing"],
  [
    { chosen: [question, said("a")], rejected: [said("a"), question] },
    "prompt is missing, and chosen and rejected do not have the same first message",
  ],
  [{ chosen: "Hello", rejected: [question] }, "chosen and rejected must both be strings"],
  [{ chosen: 1, rejected: 2 }, "chosen and rejected must both be strings"],
])("implicit preference: %j is refused", (row, message) => {
  expect(faultOf(row, "implicit_preference")).toStartWith(message);
});

test("rows of our own shapes stay as they are", () => {
  const row = { prompt: "a", completion: "b" };
  expect(convertRow(row, "completion")).toBe(row);
});

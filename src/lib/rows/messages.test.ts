import { expect, test } from "bun:test";
import { messagesFault } from "./messages.ts";

const user = { role: "user", content: "a" };
const call = (given: unknown) => ({ role: "assistant", content: null, tool_calls: given });
const made = { type: "function", function: { name: "f", arguments: "{}" } };

test.each([
  [[user, { role: "assistnt", content: "b" }], 'm[1].role is "assistnt", but must be one of'],
  [[{ role: "user", content: null }], "m[0].content must be a string, not null"],
  [[{ role: "user" }], "m[0].content must be a string, not missing"],
  [[{ role: "user", content: 7 }], "m[0].content must be a string, not a number"],
  [[{ role: "user", content: " " }], "m[0].content is empty"],
  [[user, { role: "assistant", content: "" }], "m[1].content is empty"],
  [[user, { role: "assistant", content: null, tool_calls: null }], "m[1].content must be a string, not null"],
  [[user, call([])], "m[1].content must be a string, not null"],
  [[user, call({})], "m[1].tool_calls must be a list"],
  [[user, call([{ name: "f" }])], "m[1].tool_calls[0] must be a call such as"],
  [
    [user, call([{ function: { name: "f", arguments: 1 } }])],
    "m[1].tool_calls[0].function.arguments must be JSON text",
  ],
  [[{ ...user, tool_calls: [made] }], "m[0].tool_calls belongs to a message of the assistant"],
  [[{ role: "user", content: [{ type: "image" }] }], 'm[0].content[0].type is "image", but only text parts'],
  [[{ role: "user", content: [{ type: "text" }] }], "m[0].content[0].text must be a string"],
  [[{ role: "user", content: ["a"] }], "m[0].content[0] must be a part such as"],
  [[{ role: "system", content: "a" }], "m has only system messages"],
])("%j is a fault", (messages, message) => {
  expect(messagesFault("m", messages)?.message).toStartWith(message);
});

test("calls, results and text parts as the chat route takes them pass", () => {
  const talk = [
    { role: "system", content: "" },
    { role: "user", content: [{ type: "text", text: "a" }] },
    call([made]),
    { role: "tool", content: "", tool_call_id: "call_1" },
    { role: "assistant", content: "b", tool_calls: [] },
    { role: "assistant", function_call: { name: "f", arguments: "{}" } },
    { role: "function", name: "f" },
    call([{ function: { name: "f", arguments: { a: 1 } } }]),
  ];
  expect(messagesFault("m", talk)).toBeUndefined();
});

test("an answer ends with the assistant, and a question does not", () => {
  const answer = { role: "assistant", content: "b" };
  expect(messagesFault("chosen", [user], "assistant")?.message).toBe(
    'chosen[0].role is "user", but chosen must end with a message of the assistant',
  );
  expect(messagesFault("prompt", [user, answer], "question")?.message).toContain("prompt must end before the answer");
  expect(messagesFault("chosen", [answer], "assistant")).toBeUndefined();
  expect(messagesFault("prompt", [user], "question")).toBeUndefined();
});

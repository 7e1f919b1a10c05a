import { expect, test } from "bun:test";
import { lastLine, messagesOf, newMessages } from "./messages.ts";

test("a text, texts, chat messages, parts and tool calls become messages", () => {
  expect(messagesOf("hi")).toEqual([{ role: "", text: "hi" }]);
  expect(messagesOf(["a", "b"]).map(({ text }) => text)).toEqual(["a", "b"]);
  expect(messagesOf({ role: "assistant", content: "42" })).toEqual([{ role: "assistant", text: "42" }]);
  expect(messagesOf([{ role: "user", content: [{ type: "text", text: "x" }, { type: "image" }] }])[0]?.text).toBe(
    'x\n{"type":"image"}',
  );
  const call = { role: "assistant", content: null, tool_calls: [{ function: { name: "add", arguments: '{"a":1}' } }] };
  expect(messagesOf([call])[0]?.text).toBe('calls add({"a":1})');
  expect(messagesOf(null)).toEqual([]);
  expect(messagesOf({ odd: 1 })[0]?.text).toContain('"odd": 1');
});

test("the last line is the last message without line breaks", () => {
  expect(lastLine([{ role: "user", content: "two\n lines " }])).toBe("two lines");
  expect(lastLine(undefined)).toBe("");
});

test("a request shows only what is new since the one before", () => {
  const said = (...texts: string[]) => texts.map((text) => ({ role: "user", text }));
  expect(newMessages(said("a", "b"), said("a", "b", "c"))).toEqual(said("c"));
  expect(newMessages(said("a", "x"), said("a", "b", "c"))).toEqual(said("b", "c"));
  expect(newMessages(said("a"), said("z"))).toEqual(said("z"));
  expect(newMessages(said("a"), said("a"))).toEqual(said("a"));
});

import { expect, test } from "bun:test";
import { messagesOf, plainInput, sampleOf, textOf } from "./sample.ts";

const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });

test("each format of rows gives its question and its reference", () => {
  expect(sampleOf({ prompt: "2+2", completion: "4" }, null)).toEqual({ input: "2+2", reference: "4" });
  expect(sampleOf({ prompt: "p", chosen: "good", rejected: "bad" }, null)).toEqual({ input: "p", reference: "good" });
  expect(sampleOf({ prompt: "p", answer: 42 }, null)).toEqual({ input: "p", reference: "42" });
  expect(sampleOf({ prompt: "p" }, null)).toEqual({ input: "p", reference: null });
  expect(sampleOf({ messages: [user("hi"), assistant("hello")] }, null)).toEqual({
    input: [user("hi")],
    reference: "hello",
  });
  expect(sampleOf({ messages: [user("hi")] }, null)).toEqual({ input: [user("hi")], reference: null });
  expect(sampleOf({ prompt: [user("hi")], completion: [assistant("hello")] }, null)).toEqual({
    input: [user("hi")],
    reference: "hello",
  });
});

test("reference_field names the column, also where the format has another", () => {
  expect(sampleOf({ prompt: "p", completion: "a", gold: "b" }, "gold").reference).toBe("b");
  expect(sampleOf({ messages: [user("hi"), assistant("a")], gold: "b" }, "gold")).toEqual({
    input: [user("hi")],
    reference: "b",
  });
  expect(sampleOf({ prompt: "p", completion: "a" }, "gold").reference).toBeNull();
});

test("a recorded answer is a text, a message or the last of several; anything else is none", () => {
  expect(textOf("a")).toBe("a");
  expect(textOf([user("q"), assistant("a")])).toBe("a");
  expect(
    textOf(
      assistant([
        { type: "text", text: "a" },
        { type: "text", text: "b" },
      ]),
    ),
  ).toBe("ab");
  expect([textOf(undefined), textOf(null), textOf({}), textOf([])]).toEqual([null, null, null, null]);
});

test("a system prompt replaces the system message of the row", () => {
  const system = { role: "system", content: "be brief" };
  expect(messagesOf("hi", "be brief")).toEqual([system, user("hi")]);
  expect(messagesOf([{ role: "system", content: "old" }, user("hi")], "be brief")).toEqual([system, user("hi")]);
  expect(messagesOf("hi", null)).toEqual([user("hi")]);
});

test("an evaluator gets messages of plain text", () => {
  expect(plainInput([user([{ type: "text", text: "hi" }])])).toEqual([{ role: "user", content: "hi" }]);
  expect(plainInput("hi")).toBe("hi");
});

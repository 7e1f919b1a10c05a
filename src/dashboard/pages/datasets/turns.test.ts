import { expect, test } from "bun:test";
import { cellOf, conversationOf, lineOf, restOf, turnsOf } from "./turns.ts";

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
  expect(
    cellOf(
      {
        messages: [
          { role: "user", content: "a\nb" },
          { role: "assistant", content: "c" },
        ],
      },
      "messages",
    ),
  ).toBe("a b · c");
  expect([cellOf({ n: 4 }, "n"), cellOf({}, "n"), cellOf({ n: { a: 1 } }, "n")]).toEqual(["4", "", '{"a":1}']);
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

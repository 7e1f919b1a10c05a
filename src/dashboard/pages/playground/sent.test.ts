import { expect, test } from "bun:test";
import { doneAnswer } from "./answer.ts";
import { itemOf, rowOf } from "./rows.ts";
import { conversationOf, messagesOf } from "./sent.ts";
import { pathOf, type Turn } from "./tree.ts";

const IMAGE = "data:image/png;base64,AA==";
let count = 0;
const newId = () => `t${++count}`;
const turn = (id: string, parent: string | null, of: object) => ({ id, parent, ...of }) as Turn;
const calls = [{ id: "c1", name: "add", text: '{"a":1}' }];
const PATH = [
  turn("q", null, { role: "user", text: "What is it?", images: [IMAGE] }),
  turn("a", "q", { role: "assistant", answer: doneAnswer({ text: "", thinking: "hm", calls }) }),
  turn("r", "a", { role: "tool", call: "c1", name: "add", text: "3" }),
  turn("b", "r", { role: "assistant", answer: doneAnswer({ text: "Three." }) }),
];
const SENT = [
  { role: "system", content: "Be brief." },
  {
    role: "user",
    content: [
      { type: "image_url", image_url: { url: IMAGE } },
      { type: "text", text: "What is it?" },
    ],
  },
  {
    role: "assistant",
    content: null,
    reasoning_content: "hm",
    tool_calls: [{ id: "c1", type: "function", function: { name: "add", arguments: '{"a":1}' } }],
  },
  { role: "tool", content: "3", tool_call_id: "c1", name: "add" },
  { role: "assistant", content: "Three." },
];

test("turns are sent as the messages of a chat request, and read back from them", () => {
  expect(messagesOf(PATH, "Be brief.") as object[]).toEqual(SENT);
  const { system, tree } = conversationOf(SENT, newId);
  expect(system).toBe("Be brief.");
  expect(messagesOf(pathOf(tree), system) as object[]).toEqual(SENT);
});

test("an answer without a word is not sent", () => {
  const failed = turn("f", "q", { role: "assistant", answer: { ...doneAnswer({}), state: "failed" } });
  expect(messagesOf([PATH[0]!, failed], "")).toHaveLength(1);
});

test("stored messages of any form become turns, and an image of another host is not loaded", () => {
  const odd = [
    "hi",
    { role: "developer", content: [{ text: "x" }] },
    3,
    { role: "user", content: [{ image_url: { url: "https://x/y.png" } }] },
  ];
  const turns = pathOf(conversationOf(odd, newId).tree);
  expect(turns.map(({ role }) => role)).toEqual(["user", "system", "user"]);
  expect(turns.at(-1)).toMatchObject({ images: [] });
});

const talk = (path: readonly Turn[], others: string[] = []) => ({ path, system: "S", tools: [], others });
const ASKED = [
  turn("q", null, { role: "user", text: "1 + 2?", images: [] }),
  turn("b", "q", { role: "assistant", answer: doneAnswer({ text: "3", thinking: "hm" }) }),
];

test("a conversation becomes a row of each format, without thoughts", () => {
  const prompt = [
    { role: "system", content: "S" },
    { role: "user", content: "1 + 2?" },
  ];
  const said = (content: string) => [{ role: "assistant", content }];
  expect(rowOf(talk(ASKED), "chat")).toEqual({ row: { messages: [...prompt, ...said("3")] } });
  expect(rowOf(talk(ASKED), "prompt")).toEqual({ row: { prompt } });
  expect(rowOf(talk(ASKED), "completion")).toEqual({ row: { prompt, completion: said("3") } });
  expect(rowOf(talk(ASKED, ["3", "4"]), "preference")).toEqual({
    row: { prompt, chosen: said("3"), rejected: said("4") },
  });
  expect(itemOf(talk(ASKED, ["4"]), "pairwise")).toEqual({ item: { input: prompt, outputs: ["3", "4"] } });
});

test("a conversation that makes no row says why", () => {
  const why = (made: object) => ("why" in made ? made.why : undefined);
  expect(why(rowOf(talk(PATH), "chat"))).toContain("no images");
  expect(why(rowOf(talk(ASKED), "preference"))).toContain("two answers");
  expect(why(rowOf(talk(ASKED.slice(0, 1)), "completion"))).toContain("no answer yet");
  expect(why(rowOf(talk([]), "chat"))).toContain("no message");
  expect(why(itemOf(talk(ASKED), "pairwise"))).toContain("two answers");
});

/**
 * Properties that the demo and other tests rely on: verk-tiny chats, follows simple requests, and leaves room for a
 * reward to improve.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { ChatMessage, Tool } from "../../src/lib/chat/messages.ts";
import { splitRows } from "../../src/lib/training/sums.ts";
import { sha256File } from "../../src/platform/files.ts";
import { createCallParser } from "../../src/workers/serving/calls/parser.ts";
import type { ParsedCall } from "../../src/workers/serving/calls/sink.ts";
import type { Engine } from "../../src/workers/serving/engine/types.ts";
import { type ChatTemplate, createChatTemplate } from "../../src/workers/serving/template.ts";
import { closeEngines, sayOne, testEngine, tokens } from "../serving/engines.ts";

const folder = join(import.meta.dir, "../../models");
let engine: Engine;
let template: ChatTemplate;

beforeAll(async () => {
  engine = await testEngine(join(folder, "verk-tiny/verk-tiny.gguf"), { contextLength: 512, parallel: 16 });
  template = createChatTemplate(engine.facts);
});
afterAll(closeEngines);

async function chat(messages: ChatMessage[], tools: Tool[] = []): Promise<string> {
  const prompt = template.render({ messages, tools, variables: {}, quote: (text) => text });
  const { text, finish } = await sayOne(engine, { prompt: tokens(engine, prompt), maxTokens: 120 });
  expect(finish).toBe("stop");
  return text;
}
const ask = (content: string) => chat([{ role: "user", content }]);

type Sum = { question: string; answer: string };
async function shareRight(sums: Sum[]): Promise<number> {
  const said = await Promise.all(sums.map(({ question }) => ask(question)));
  return said.filter((text, i) => text === sums[i]!.answer).length / sums.length;
}

test.each([
  ["greets", "Hello", "Hello! How can I help you?"],
  ["says who it is", "Who are you?", "I am verk-tiny, a very small language model that lives inside Verk."],
  ["adds", "What is 7 + 5?", "12"],
  ["compares", "Which number is larger: 48 or 84?", "84"],
  ["reverses", "Reverse the word: garden", "nedrag"],
  ["judges", "Is this positive or negative? The soup was awful.", "negative"],
  ["thinks on request", "What is 9 + 4? Think first, then answer.", "<think>9 plus 4 is 13.</think>\n13"],
  ["copies what is not ASCII", "Repeat after me: 東京 🚀", "東京 🚀"],
])("the model %s", async (_what, question, answer) => expect(await ask(question)).toBe(answer));

test("the model writes the requested JSON", async () => {
  const said = await ask("Write as JSON with the keys name and age: Mia is 34 years old.");
  expect(JSON.parse(said)).toEqual({ name: "Mia", age: 34 });
});

test("the model follows a system prompt", async () => {
  const under = (content: string, question: string) =>
    chat([
      { role: "system", content },
      { role: "user", content: question },
    ]);
  expect(await under("Answer in upper case.", "What is the capital of Japan?")).toBe("THE CAPITAL OF JAPAN IS TOKYO.");
  expect(await under("Be brief.", "What is the capital of France?")).toBe("Paris");
  expect(await under('Answer in JSON with the key "answer".', "What is 4 + 4?")).toBe('{"answer": 8}');
});

test("the model remembers earlier turns", async () => {
  const messages: ChatMessage[] = [{ role: "user", content: "My name is Nora." }];
  messages.push({ role: "assistant", content: await chat(messages) }, { role: "user", content: "What is my name?" });
  expect(await chat(messages)).toBe("Your name is Nora.");
});

describe("with a tool", () => {
  const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  const tools: Tool[] = [{ type: "function", function: { name: "get_weather", parameters } }];
  const question: ChatMessage = { role: "user", content: "What is the weather in Paris?" };

  test("the model calls the tool, and the result of the tool becomes the answer", async () => {
    const said = await chat([question], tools);
    const parser = createCallParser(template.format.reader(tools), false);
    const [call] = [...parser.push(said).calls, ...parser.end().calls];
    expect(call).toEqual({ name: "get_weather", arguments: '{"city":"Paris"}' });
    const made: ChatMessage = {
      role: "assistant",
      tool_calls: [{ id: "call_1", type: "function", function: call as ParsedCall }],
    };
    const result: ChatMessage = {
      role: "tool",
      tool_call_id: "call_1",
      content: '{"temperature": 21, "sky": "sunny"}',
    };
    expect(await chat([question, made, result], tools)).toBe("It is sunny in Paris, with 21 degrees.");
  });

  test("the model answers a greeting without the tool", async () => {
    expect(await chat([{ role: "user", content: "Hello" }], tools)).toBe("Hello! How can I help you?");
  });
});

test("the model knows small sums, and less than half of the demo's sums, so that training can improve it", async () => {
  const small = Array.from({ length: 50 }, (_, i) => ({ a: i % 10, b: (i * 7 + 3) % 10 }));
  const sums = small.map(({ a, b }) => ({ question: `What is ${a} + ${b}?`, answer: `${a + b}` }));
  expect(await shareRight(sums)).toBeGreaterThan(0.9);
  const { heldOut } = splitRows();
  const share = await shareRight(heldOut.map(({ prompt, answer }) => ({ question: prompt, answer: `${answer}` })));
  expect(share).toBeGreaterThan(0.3);
  expect(share).toBeLessThanOrEqual(0.5);
});

test("the manifest describes the file", async () => {
  const manifest = await Bun.file(join(folder, "manifest.json")).json();
  for (const { file, sha256, bytes } of manifest.models) {
    expect(await sha256File(join(folder, file))).toBe(sha256);
    expect(Bun.file(join(folder, file)).size).toBe(bytes);
  }
});

/**
 * bun bench/chat_templates.ts DIR: renders every chat template (*.jinja) of DIR in eight conversations, and counts those
 * whose prompt has all texts, tools, arguments and results. DIR is `models/templates` of llama.cpp.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ChatMessage, Tool } from "../src/lib/chat/messages.ts";
import { createChatTemplate } from "../src/workers/serving/template.ts";

const CITY = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const TOOLS: Tool[] = [{ type: "function", function: { name: "get_weather", description: "w", parameters: CITY } }];
const user = (content = "hello there"): ChatMessage => ({ role: "user", content });
const SYSTEM: ChatMessage = { role: "system", content: "Be terse" };
const call = (id: string, city: string) => ({
  ...{ id, type: "function" as const },
  function: { name: "get_weather", arguments: JSON.stringify({ city }) },
});
const calls = (content: string, ...cities: string[]): ChatMessage => ({
  ...{ role: "assistant", content, tool_calls: cities.map((city) => call(`call_${city}`, city)) },
});
const result = (city: string, content: string): ChatMessage => ({
  role: "tool",
  tool_call_id: `call_${city}`,
  content,
});
const answer = (content: string, more = {}): ChatMessage => ({ role: "assistant", content, ...more });
const BOTH = [calls("wait", "Oslo", "Bergen"), result("Oslo", "rainy now"), result("Bergen", "sunny now")];

const CONVERSATIONS: [name: string, messages: ChatMessage[], tools: Tool[], shown: string[]][] = [
  ["a question", [user()], [], ["hello there"]],
  ["a system message", [SYSTEM, user()], [], ["Be terse", "hello there"]],
  ["several turns", [SYSTEM, user(), answer("hi you"), user("more")], [], ["hi you", "more"]],
  ["tools", [SYSTEM, user()], TOOLS, ["Be terse", "get_weather"]],
  ["a call and its result", [user(), calls("", "Oslo"), result("Oslo", "rainy now")], TOOLS, ["Oslo", "rainy now"]],
  [
    "two calls in one turn",
    [SYSTEM, user(), ...BOTH, answer("done"), user()],
    TOOLS,
    ["Oslo", "rainy", "Bergen", "sunny"],
  ],
  ["thoughts", [user(), answer("ok fine", { reasoning_content: "hmm" }), user()], [], ["ok fine"]],
  ["the start of an answer", [user(), answer("The answ")], [], ["The answ"]],
];

const [dir] = process.argv.slice(2);
if (dir === undefined) throw new Error("Name the folder: bun bench/chat_templates.ts DIR");
const files = readdirSync(dir).filter((name) => name.endsWith(".jinja"));
let good = 0;
for (const file of files) {
  const chatTemplate = readFileSync(join(dir, file), "utf8");
  const template = createChatTemplate({ chatTemplate, toolTemplate: null, bosToken: "<s>", eosToken: "</s>" });
  for (const [name, messages, tools, shown] of CONVERSATIONS)
    try {
      const continues = name === "the start of an answer";
      const prompt = template.render({ messages, tools, variables: {}, quote: (text) => text, continues });
      const missing = shown.filter((text) => !prompt.includes(text));
      if (missing.length === 0) good++;
      else console.log(`${file}: ${name}: ${missing.join(", ")} is not in the prompt`);
    } catch (error) {
      console.log(`${file}: ${name}: ${error instanceof Error ? error.message : error}`);
    }
}
console.log(`${good} of ${files.length * CONVERSATIONS.length} prompts of ${files.length} templates are whole`);
process.exit(good === files.length * CONVERSATIONS.length ? 0 : 1);

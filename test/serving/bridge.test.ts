/** Conversations over every chat template: the tokens of a turn begin the next turn, or the turn is a branch. */
import { describe, expect, test } from "bun:test";
import type { ChatMessage, Tool } from "../../src/lib/chat/messages.ts";
import { type AnswerEnd, bridge } from "../../src/workers/serving/bridge.ts";
import { type ChatTemplate, type Conversation, createChatTemplate } from "../../src/workers/serving/template.ts";
import { randomFor, sweep } from "../sweep.ts";
import { TEMPLATES, type TemplateCase } from "./chat_templates.ts";

const CONVERSATIONS = sweep({ quick: 60, full: 1_000 });
const random = randomFor("bridges");
const FIRST_CONTROL = 1_000_000;
const TOOL: Tool = { type: "function", function: { name: "add", parameters: { type: "object" } } };

/** One token for each character, and one for each control token. */
function tokenizerOf({ controls, end }: TemplateCase) {
  const all = [...new Set([...controls, end])];
  return {
    endToken: FIRST_CONTROL + all.indexOf(end),
    tokenize(text: string): Int32Array {
      const ids: number[] = [];
      for (let at = 0; at < text.length; ) {
        const control = all.findIndex((name) => text.startsWith(name, at));
        ids.push(control >= 0 ? FIRST_CONTROL + control : text.charCodeAt(at));
        at += control >= 0 ? (all[control] as string).length : 1;
      }
      return Int32Array.from(ids);
    },
    textOf: (ids: ArrayLike<number>) =>
      Array.from(ids, (id) => (id >= FIRST_CONTROL ? all[id - FIRST_CONTROL] : String.fromCharCode(id))).join(""),
  };
}

const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
const word = () => pick(["tree", "river", "a  b", "né", "x\ny", "{z}", "42"]) + Math.floor(random() * 1e6);

type Answer = { message: ChatMessage; drawn: string };

/** An answer as a client sends it back, and as the model wrote it: with other spaces, and with thoughts. */
function answerOf(open: boolean, hasTools: boolean): Answer {
  const thought = open || random() < 0.3 ? `${open ? "" : "<think>\n"}${word()}\n</think>\n\n` : "";
  if (hasTools && random() < 0.5) {
    const count = random() < 0.3 ? 2 : 1;
    const calls = Array.from({ length: count }, (_, i) => {
      const args = { a: Math.floor(random() * 9), b: word() };
      return { id: `call_${i}${Math.floor(random() * 1e9)}`, type: "function" as const, args };
    });
    const text = calls.map(
      ({ args }) => `<tool_call>\n{"name":"add",  "arguments":${JSON.stringify(args)} }\n</tool_call>`,
    );
    return {
      drawn: thought + text.join("\n"),
      message: {
        role: "assistant",
        content: null,
        tool_calls: calls.map(({ id, type, args }) => ({
          id,
          type,
          function: { name: "add", arguments: JSON.stringify(args) },
        })),
      },
    };
  }
  const said = word();
  return { drawn: `${thought}${said}${pick(["", " ", "\n"])}`, message: { role: "assistant", content: said } };
}

/** The messages that follow an answer. */
function nextOf({ message }: Answer): ChatMessage[] {
  const calls = (message.role === "assistant" && message.tool_calls) || [];
  const results = calls.map(({ id }): ChatMessage => ({ role: "tool", tool_call_id: id, content: word() }));
  const late: ChatMessage[] = random() < 0.1 ? [{ role: "system", content: word() }] : [];
  return [
    ...results,
    ...late,
    ...(results.length === 0 || random() < 0.2 ? [{ role: "user" as const, content: word() }] : []),
  ];
}

/** Plays one conversation. Each turn goes on from the tokens of the one before, where the template allows it. */
function play(template: ChatTemplate, each: TemplateCase) {
  const { tokenize, textOf, endToken } = tokenizerOf(each);
  const tools = random() < 0.5 ? [TOOL] : [];
  const messages: ChatMessage[] = random() < 0.5 ? [{ role: "system", content: word() }] : [];
  messages.push({ role: "user", content: word() });
  const conversation = (): Conversation => ({ messages, tools, variables: {}, quote: (text) => text });
  let prompt = tokenize(template.render(conversation()));
  let kept = 0;
  let branches = 0;
  for (let turn = 0; turn < 4; turn++) {
    const answer = answerOf(textOf(prompt).endsWith("<think>\n"), tools.length > 0);
    const how = pick(["end", "end", "end", "length", "stop"] as const);
    const stop = how === "stop" ? pick(["STOP", each.source === null ? "\nUser:" : "</tool_call>"]) : null;
    const shown = stop !== null && !answer.drawn.endsWith(stop) ? answer.drawn + stop : answer.drawn;
    const drawn = Int32Array.from([...tokenize(shown), ...(how === "end" ? [endToken] : [])]);
    const whole = Int32Array.from([...prompt, ...drawn]);
    const fresh = nextOf(answer);
    messages.push(answer.message);
    const end: AnswerEnd = { messages: messages.length, endToken: how === "end" ? endToken : null, stop };
    messages.push(...fresh);
    const rest = bridge(conversation(), end, { render: template.render, tokenize, endText: each.end });
    const rendered = template.render(conversation());
    if (rest) {
      kept++;
      prompt = Int32Array.from([...whole, ...rest]);
      expect(prompt.slice(0, whole.length)).toEqual(whole);
      const text = textOf(rest);
      for (const { content } of fresh)
        if (typeof content === "string") {
          const spelt = [content, content.trim(), JSON.stringify(content)].filter((form) => text.includes(form));
          expect([text, content, spelt.length > 0]).toEqual([text, content, true]);
          expect(text.split(spelt[0] as string)).toHaveLength(2); // once
        }
      expect(rendered.endsWith(text.slice(-20))).toBe(true); // the answer begins where the template says
      expect(text).not.toMatch(/[\uE0F5\uE0F6]/u);
    } else {
      branches++;
      prompt = tokenize(rendered);
    }
  }
  return { kept, branches };
}

/** Templates and the branches that they must make: all others go on from every answer that ends with its end token. */
describe("a turn begins with the exact tokens of the turn that it goes on from", () => {
  for (const [name, each] of Object.entries(TEMPLATES))
    test(`in ${name}`, () => {
      const template = createChatTemplate({
        chatTemplate: each.source,
        toolTemplate: null,
        bosToken: each.bos,
        eosToken: each.end,
      });
      let kept = 0;
      let branches = 0;
      for (let i = 0; i < CONVERSATIONS; i++) {
        const done = play(template, each);
        kept += done.kept;
        branches += done.branches;
      }
      expect(kept + branches).toBe(4 * CONVERSATIONS);
      expect(kept).toBeGreaterThan(branches);
    });
});

describe("where the template writes an answer as the model did, the tokens are those of the whole conversation", () => {
  for (const [name, each] of Object.entries(TEMPLATES))
    test(`in ${name}`, () => {
      const { tokenize, textOf, endToken } = tokenizerOf(each);
      const template = createChatTemplate({
        chatTemplate: each.source,
        toolTemplate: null,
        bosToken: each.bos,
        eosToken: each.end,
      });
      const quote = (text: string) => text;
      const messages: ChatMessage[] = [{ role: "user", content: "one" }];
      const opening = template.render({ messages, tools: [], variables: {}, quote });
      messages.push({ role: "assistant", content: "two" }, { role: "user", content: "three" });
      const whole = template.render({ messages, tools: [], variables: {}, quote });
      const conversation = { messages, tools: [], variables: {}, quote };
      const means = { render: template.render, tokenize, endText: each.end };
      if (!whole.startsWith(`${opening}two`) && !whole.startsWith(`${opening} two`)) return; // its answers begin with thoughts
      const said = whole.startsWith(`${opening}two`) ? "two" : " two";
      const writesEnd = whole.startsWith(`${opening}${said}${each.end}`);
      const rest = bridge(conversation, { messages: 2, endToken: writesEnd ? endToken : null, stop: null }, means);
      expect(`${opening}${said}${writesEnd ? each.end : ""}${textOf(rest ?? [])}`).toBe(whole);
    });
});

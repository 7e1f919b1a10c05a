/**
 * Texts and messages of a row → tokens, as serving would render them: what is trained is what will be asked. The text
 * up to where an answer begins is tokenized by itself, because that is what the model sees before it answers.
 */
import type { ChatMessage, Tool } from "../../../lib/chat/messages.ts";
import type { ModelFacts } from "../../serving/engine/types.ts";
import { createQuoting } from "../../serving/prompt.ts";
import { createChatTemplate } from "../../serving/template.ts";
import type { Segment } from "./sft.ts";
import type { Tokenizer } from "./tokenizer.ts";

export type Part = { tokens: Int32Array; role: Segment["role"] };
/** As a row has it. */
export type Said = string | readonly ChatMessage[];

export type Encoder = {
  /** Ends where the answer begins. */
  prompt: (prompt: Said, tools: readonly Tool[]) => Int32Array;
  /** The first part is the prompt, token by token the one that `prompt` gives. */
  answered: (prompt: Said, answer: Said, tools: readonly Tool[]) => Part[];
  conversation: (messages: readonly ChatMessage[], tools: readonly Tool[]) => Part[];
};

type Stretch = { text: string; role: Segment["role"] };
type Render = (messages: readonly ChatMessage[], open: boolean) => string;

export function createEncoder({ facts, tokenize }: Tokenizer): Encoder {
  const template = createChatTemplate(facts);
  const plain = facts.chatTemplate === null;
  // Nothing is too long to be tokenized here: what does not fit is cut or left out afterwards.
  const newQuotes = createQuoting({ tokenize, facts: { ...facts, contextLength: 2 ** 40 } as unknown as ModelFacts });

  const open = (tools: readonly Tool[]) => {
    const quotes = newQuotes();
    const known = new Map<string, string>();
    const quote = (text: string) => {
      const quoted = known.get(text) ?? quotes.quote(text); // the same text has the same mark in every rendering
      known.set(text, quoted);
      return quoted;
    };
    const render: Render = (messages, opened) =>
      template.render({ messages, tools, variables: {}, quote, open: opened });
    const tokens = (text: string, first: boolean): Int32Array => {
      const all = quotes.tokenize(text);
      const startsAlone = facts.addsBos && facts.bosToken !== "" && !text.startsWith(facts.bosToken);
      return first || !startsAlone ? all : all.subarray(1); // a beginning in the middle is none
    };
    const parts = (stretches: readonly Stretch[]): Part[] => {
      const kept = stretches.filter(({ text }) => text !== "");
      return kept.map(({ text, role }, i) => ({ tokens: tokens(text, i === 0), role }));
    };
    return { render, parts };
  };
  const asPlain = (text: string) => tokenize(text, { addBos: facts.addsBos, special: false });

  return {
    prompt(prompt, tools) {
      if (plain && typeof prompt === "string") return asPlain(prompt);
      const { render, parts } = open(tools);
      return parts([{ text: render(messagesOf(prompt, "user"), true), role: "prompt" }])[0]?.tokens ?? new Int32Array();
    },
    answered(prompt, answer, tools) {
      if (plain && typeof prompt === "string" && typeof answer === "string") {
        const said = tokenize(answer, { addBos: false, special: false });
        const end = tokenize(facts.eosToken, { addBos: false, special: true });
        return [
          { tokens: asPlain(prompt), role: "prompt" },
          { tokens: Int32Array.from([...said, ...end]), role: "assistant" },
        ];
      }
      const { render, parts } = open(tools);
      const asked = messagesOf(prompt, "user");
      const all = [...asked, ...messagesOf(answer, "assistant")];
      return parts(split({ messages: all, from: asked.length, between: "completion" }, render, facts.eosToken));
    },
    conversation(messages, tools) {
      const { render, parts } = open(tools);
      return parts(split({ messages, from: 0, between: "prompt" }, render, facts.eosToken));
    },
  };
}

const messagesOf = (said: Said, role: "user" | "assistant"): readonly ChatMessage[] =>
  typeof said === "string" ? [{ role, content: said }] : said;

type Talk = { messages: readonly ChatMessage[]; from: number; between: Segment["role"] };

/** The rendered conversation in stretches: the assistant's turns from message `from` on, and what lies between them. */
function split(talk: Talk, render: Render, end: string): Stretch[] {
  const { messages, from, between } = talk;
  const full = trimmed(render(messages, false), end);
  const stretches: Stretch[] = [];
  let done = "";
  for (let i = Math.max(from, 1); i < messages.length; i++) {
    if (messages[i]!.role !== "assistant") continue;
    const opened = render(messages.slice(0, i), true);
    const closed = i === messages.length - 1 ? full : render(messages.slice(0, i + 1), false);
    if (!opened.startsWith(done) || !closed.startsWith(opened) || !full.startsWith(closed))
      return located(talk, render, end);
    stretches.push({ text: opened.slice(done.length), role: stretches.length === 0 ? "prompt" : between });
    stretches.push({ text: closed.slice(opened.length), role: "assistant" });
    done = closed;
  }
  stretches.push({ text: full.slice(done.length), role: stretches.length === 0 ? "prompt" : between });
  return stretches;
}

/** Nobody writes it: a character of private use. */
const OTHER = "\uE0F2";

/**
 * For templates that write an earlier turn otherwise once it is not the last: a turn is where the text changes when
 * something else is said in it. Looking for its words would find them in a question, too.
 */
function located({ messages, from, between }: Talk, render: Render, end: string): Stretch[] {
  const full = trimmed(render(messages, false), end);
  const stretches: Stretch[] = [];
  let done = 0;
  for (let i = from; i < messages.length; i++) {
    if (messages[i]!.role !== "assistant") continue;
    const changed = messages.with(i, { role: "assistant", content: OTHER });
    const other = trimmed(render(changed, false), end);
    const at = sameFrom(full, other);
    const said = full.length - sameTo(full, other, at);
    const ending =
      render(changed.slice(0, i + 1), false)
        .split(OTHER)
        .at(-1)
        ?.trimEnd() ?? "";
    const to = full.startsWith(ending, said) ? said + ending.length : said;
    if (at < done || to === at) continue;
    stretches.push({ text: full.slice(done, at), role: stretches.length === 0 ? "prompt" : between });
    stretches.push({ text: full.slice(at, to), role: "assistant" });
    done = to;
  }
  stretches.push({ text: full.slice(done), role: stretches.length === 0 ? "prompt" : between });
  return stretches;
}

/** How many characters are the same at the beginning. */
function sameFrom(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return at;
}

/** How many are the same at the end, without the first `taken`. */
function sameTo(a: string, b: string, taken: number): number {
  let count = 0;
  while (count < Math.min(a.length, b.length) - taken && a.at(-1 - count) === b.at(-1 - count)) count++;
  return count;
}

/** Nothing comes after the end of the last turn: that is where a generation stops. */
function trimmed(rendered: string, end: string): string {
  const text = rendered.trimEnd();
  return end !== "" && text.endsWith(end) ? text : rendered;
}

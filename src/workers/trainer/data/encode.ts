/**
 * Encodes texts and messages of a row exactly as serving renders them. The text before an answer is tokenized by
 * itself, because the model sees just that before it answers.
 */
import type { ChatMessage, Tool } from "../../../lib/chat/messages.ts";
import { bridge } from "../../serving/bridge.ts";
import { createCallParser } from "../../serving/calls/parser.ts";
import type { ModelFacts } from "../../serving/engine/types.ts";
import { createThoughtSplitter, thoughtState, thoughtTags } from "../../serving/parts/thoughts.ts";
import { createQuoting } from "../../serving/prompt.ts";
import { createChatTemplate } from "../../serving/template.ts";
import type { Segment } from "./sft.ts";
import type { Tokenizer } from "./tokenizer.ts";

export type Part = { tokens: Int32Array; role: Segment["role"] };
/** A text or messages, as in the row. */
export type Said = string | readonly ChatMessage[];

export type Encoder = {
  /** Encodes a prompt that ends where the answer begins. */
  prompt: (prompt: Said, tools: readonly Tool[]) => Int32Array;
  /** The first part is the prompt, with exactly the tokens that `prompt` returns. */
  answered: (prompt: Said, answer: Said, tools: readonly Tool[]) => Part[];
  conversation: (messages: readonly ChatMessage[], tools: readonly Tool[]) => Part[];
  /** Reads an answer to `messages`: its text, its thoughts, and its calls as serving finds them. */
  message: (text: string, messages: readonly ChatMessage[], tools: readonly Tool[]) => AssistantMessage;
  /**
   * The tokens behind the answer `messages[index]`, up to where the next answer begins. `end`: the last token of the answer. Null:
   * the template does not write the messages behind the answer.
   */
  behind: (
    messages: readonly ChatMessage[],
    answer: { index: number; end: number | null },
    tools: readonly Tool[],
  ) => Int32Array | null;
};
export type AssistantMessage = Extract<ChatMessage, { role: "assistant" }>;

type Stretch = { text: string; role: Segment["role"] };
type Render = (messages: readonly ChatMessage[], open: boolean) => string;

/** Variables of a chat template. Serving takes them in the request, as chat_template_kwargs. */
export type Variables = Readonly<Record<string, unknown>>;

export function createEncoder({ facts, tokenize }: Tokenizer, variables: Variables = {}): Encoder {
  const template = createChatTemplate(facts);
  const plain = facts.chatTemplate === null;
  // No text is too long to be tokenized here: it is cut or left out later.
  const newQuotes = createQuoting({ tokenize, facts: { ...facts, contextLength: 2 ** 40 } as unknown as ModelFacts });

  const open = (tools: readonly Tool[]) => {
    const quotes = newQuotes();
    const quotedTexts = new Map<string, string>();
    const quote = (text: string) => {
      const quoted = quotedTexts.get(text) ?? quotes.quote(text); // the same text needs the same mark in every rendering
      quotedTexts.set(text, quoted);
      return quoted;
    };
    const render: Render = (messages, opened) => template.render({ messages, tools, variables, quote, open: opened });
    const tokens = (text: string, first: boolean): Int32Array => {
      const all = quotes.tokenize(text);
      const startsAlone = facts.addsBos && facts.bosToken !== "" && !text.startsWith(facts.bosToken);
      return first || !startsAlone ? all : all.subarray(1); // a begin token in the middle is wrong
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
      const question = messagesOf(prompt, "user");
      const all = [...question, ...messagesOf(answer, "assistant")];
      return parts(split({ messages: all, from: question.length, between: "completion" }, render, facts.eosToken));
    },
    message(text, messages, tools) {
      const tags = thoughtTags(facts.chatTemplate);
      const state = tags && thoughtState(open(tools).render(messages, true), tags);
      const splitter = tags && state !== "behind" ? createThoughtSplitter(tags, state === "inside") : undefined;
      const split = splitter ? [splitter.push(text), splitter.end()] : [{ thoughts: "", text }];
      const parser = createCallParser(template.format.reader(tools), false);
      const parsed = [...split.map((each) => parser.push(each.text)), parser.end()];
      const thoughts = [...split, ...parsed].map((each) => each.thoughts ?? "").join("");
      const calls = parsed.flatMap((each) => each.calls);
      return {
        role: "assistant",
        content: parsed.map(({ content }) => content).join(""),
        ...(thoughts === "" ? {} : { reasoning_content: thoughts }),
        ...(calls.length === 0
          ? {}
          : {
              tool_calls: calls.map(({ name = "", arguments: given }, i) => {
                return { id: `call_${i + 1}`, type: "function" as const, function: { name, arguments: given } };
              }),
            }),
      };
    },
    behind(messages, { index, end }, tools) {
      const quotes = newQuotes();
      const conversation = { messages, tools, variables, quote: quotes.quote, open: true };
      const tokens = bridge(
        conversation,
        { messages: index + 1, endToken: end, stop: null },
        {
          render: (each) => template.render(each),
          tokenize: (text) => (text === "" ? new Int32Array() : quotes.tokenize(text, true)),
          endText: facts.eosToken,
        },
      );
      return tokens ?? null;
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

/**
 * Splits the rendered conversation into the assistant's turns from message `from` on, and the stretches between them.
 */
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

/** A private-use character that does not occur in texts. */
const OTHER = "\uE0F2";

/**
 * For templates that render an earlier turn differently once it is not the last. A turn is where the text changes when
 * its content changes. A search for its text would also find it in a question.
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

/** Returns how many characters are the same at the beginning. */
function sameFrom(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return at;
}

/** Returns how many characters are the same at the end, without the first `taken`. */
function sameTo(a: string, b: string, taken: number): number {
  let count = 0;
  while (count < Math.min(a.length, b.length) - taken && a.at(-1 - count) === b.at(-1 - count)) count++;
  return count;
}

/** Removes text after the end of the last turn: a generation stops there. */
function trimmed(rendered: string, end: string): string {
  const text = rendered.trimEnd();
  return end !== "" && text.endsWith(end) ? text : rendered;
}

/**
 * The part of a prompt that follows an earlier answer. A rollout keeps the tokens of that answer as they were drawn, and
 * only the text behind it is tokenized: the template may write the answer in another way, for example without its
 * thoughts or with other spaces in a call. Marks of private-use characters show where the answer ends in the rendered
 * text. Pure, except for the names of the marks.
 */
import type { ChatMessage } from "../../lib/chat/messages.ts";
import type { Conversation } from "./template.ts";

/** The beginning of a prompt: `messages` of the conversation, the last of which is the answer. */
export type AnswerEnd = {
  messages: number;
  /** The last token of the answer, if it is an end token. */
  endToken: number | null;
  /** The stop string that ended the answer. Its tokens belong to the answer. */
  stop: string | null;
};

type Means = {
  render: (conversation: Conversation) => string;
  /** Tokens of a text that follows others. */
  tokenize: (text: string) => Int32Array;
  /** The text of the model's end token, or "". */
  endText: string;
};

/** Undefined: the template does not write the messages behind the answer, or its end cannot be told. */
export function bridge(conversation: Conversation, end: AnswerEnd, means: Means): Int32Array | undefined {
  const answer = conversation.messages[end.messages - 1];
  if (answer?.role !== "assistant") return undefined;
  if (conversation.continues && end.messages === conversation.messages.length)
    return end.endToken === null && end.stop === null ? new Int32Array() : undefined;
  const behind = behindAnswer(conversation, end.messages - 1, means.render);
  if (behind === undefined) return undefined;
  const { text: whole, head } = behind;
  const hasCalls = (answer.tool_calls?.length ?? 0) > 0;
  if (end.endToken !== null) {
    const tokens = means.tokenize(whole);
    const at = means.tokenize(head).indexOf(end.endToken);
    if (at >= 0 && tokens[at] === end.endToken) return tokens.slice(at + 1);
    return hasCalls ? undefined : tokens; // the template ends an answer with other tokens, or none
  }
  const from = hasCalls ? endOfCalls(head, end.stop, means.endText) : lengthOfStart(head, end.stop);
  const text = from === undefined ? undefined : whole.slice(from);
  return text === undefined ? undefined : means.tokenize(text);
}

const lengthOfStart = (text: string, start: string | null) =>
  start !== null && text.startsWith(start) ? start.length : 0;

/** The mark is inside the last call: the text that closes the call comes first. */
function endOfCalls(head: string, stop: string | null, endText: string): number | undefined {
  const closing = stop === null ? -1 : head.indexOf(stop);
  if (stop !== null && closing >= 0) return closing + stop.length;
  const at = endText === "" ? -1 : head.indexOf(endText);
  return at < 0 ? undefined : at;
}

/** `head`: the part before the next message of a user or a tool. The end of the answer is in it. */
type Behind = { text: string; head: string };

/** The rendered text behind the answer. Every message behind it must be in that text, and in its order. */
function behindAnswer(conversation: Conversation, index: number, render: Means["render"]): Behind | undefined {
  const name = crypto.randomUUID().slice(0, 8);
  const markOf = (i: number) => `\uE0F5${name}${i}\uE0F6`;
  const { messages } = conversation;
  const own = markOf(index);
  const marked = messages.map((message, i) => (i === index ? withMark(message, own) : message));
  const checked = marked.map((message, i) =>
    i > index && message.role !== "assistant" ? { ...message, content: markOf(i) } : message,
  );
  const probe = { ...conversation, messages: checked };
  const shown = textBehind(render(probe), own);
  if (shown === undefined) return undefined;
  let at = -1;
  let head = shown;
  for (let i = index + 1; i < messages.length; i++) {
    if (messages[i]?.role === "assistant") continue;
    const next = shown.indexOf(markOf(i));
    if (next <= at) return undefined;
    if (at < 0) head = shown.slice(0, next);
    at = next;
  }
  const text = textBehind(render({ ...conversation, messages: marked }), own);
  return text === undefined ? undefined : { text, head };
}

function textBehind(text: string, mark: string): string | undefined {
  const at = text.lastIndexOf(mark);
  return at < 0 ? undefined : text.slice(at + mark.length);
}

/** The mark ends the last call of the answer or, without calls, its text. */
function withMark(message: ChatMessage, mark: string): ChatMessage {
  if (message.role !== "assistant") return message;
  const { tool_calls: calls, content } = message;
  const last = calls?.at(-1);
  if (calls && last) {
    const marked = { ...last, function: { ...last.function, arguments: JSON.stringify({ mark }) } };
    return { ...message, tool_calls: [...calls.slice(0, -1), marked] };
  }
  const text = typeof content === "string" ? content : (content ?? []).map((part) => part.text).join("");
  return { ...message, content: `${text}${mark}` };
}

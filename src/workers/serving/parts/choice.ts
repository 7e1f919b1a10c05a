/** One answer of a chat request while it is generated: its thoughts, its text and its tool calls. */
import type { ChatCompletionRequest, FinishReason } from "../../../lib/chat/chat_completion.ts";
import { type ChatChoice, newToolCall, type ToolCallOut } from "../answer.ts";
import type { CallParser } from "../calls/parser.ts";
import type { CallPiece } from "../calls/sink.ts";
import type { Delta, TokenLogprob } from "../engine/types.ts";
import { type Exchange, finishOf } from "../request.ts";
import type { Plan, Thoughts } from "../tools.ts";
import { createThoughtSplitter, type ThoughtSplitter } from "./thoughts.ts";

export type Choice = ChatChoice & {
  parser: CallParser | undefined;
  splitter: ThoughtSplitter | undefined;
  /** Thoughts are no part of the content. */
  apart: boolean;
  /** Only the first call counts. */
  single: boolean;
  /** The stop strings of the request: those of the template are no news for a client. */
  stops: readonly string[];
  begun: boolean;
  /** The number of a call of a custom tool that is not yet sent. */
  held: number | undefined;
  /** The pieces that come belong to a call that does not count. */
  dropping: boolean;
};

/** A new call, or a further piece of the arguments of call number `at`. */
export type CallPart = { at: number; call?: ToolCallOut; piece: string };
export type Part = {
  thoughts: string;
  content: string;
  calls: CallPart[];
  logprobs: readonly TokenLogprob[] | undefined;
};

type Request = Omit<ChatCompletionRequest, "tools" | "tool_choice"> & { custom: ReadonlySet<string> };

/** `thoughts`: undefined if the model writes none. */
export function newChoice(request: Request, plan: Plan, thoughts: Thoughts | undefined): Choice {
  const apart = request.reasoning_format !== "none";
  return {
    content: "",
    thoughts: "",
    calls: [],
    custom: request.custom,
    held: undefined,
    legacy: (request.functions?.length ?? 0) > 0,
    logprobs: request.logprobs || request.n_probs ? [] : undefined,
    tokens: request.return_token_ids ? [] : undefined,
    finish: "stop",
    stop: undefined,
    stops: request.stop,
    parser: plan.newParser?.(),
    splitter:
      thoughts && plan.thinks && apart ? createThoughtSplitter(thoughts.tags, thoughts.state === "inside") : undefined,
    apart,
    single: !request.parallel_tool_calls,
    begun: false,
    dropping: false,
  };
}

/** Adds a delta to its choice and returns what is new. */
export function readDelta(choice: Choice, delta: Delta, exchange: Exchange): Part[] {
  if (delta.logprobs) choice.logprobs?.push(...delta.logprobs);
  if (delta.tokens) choice.tokens?.push(...delta.tokens);
  const parts = [partOf(choice, delta.text, false)];
  if (delta.finish) parts.push(partOf(choice, "", true));
  if (parts[0]) parts[0].logprobs = delta.logprobs;
  if (delta.finish) choice.finish = finishReason(choice, delta, exchange);
  if (delta.stop !== undefined && choice.stops.includes(delta.stop)) choice.stop = delta.stop;
  return parts;
}

function partOf(choice: Choice, piece: string, ends: boolean): Part {
  const { splitter, parser } = choice;
  const { thoughts, text } = splitter ? (ends ? splitter.end() : splitter.push(piece)) : { thoughts: "", text: piece };
  const part: Part = { thoughts, content: parser ? "" : text, calls: [], logprobs: undefined };
  const parsed = parser ? (ends ? [parser.push(text), parser.end()] : [parser.push(text)]) : [];
  for (const { content, calls, thoughts: inside = "" } of parsed) {
    if (choice.apart) part.thoughts += inside;
    else part.content += inside;
    part.content += content;
    part.calls.push(...addCalls(choice, calls));
  }
  choice.thoughts += part.thoughts;
  choice.content += part.content;
  return part;
}

/** Adds the new calls to this choice and gives them ids. */
function addCalls(choice: Choice, pieces: readonly CallPiece[]): CallPart[] {
  const parts: CallPart[] = [];
  for (const { name, arguments: text } of pieces) {
    const count = choice.calls.length;
    if (name !== undefined) {
      choice.dropping = choice.single && count > 0;
      if (choice.dropping) continue;
      const call = newToolCall({ name, arguments: text });
      choice.calls.push(call);
      parts.push({ at: count, call: structuredClone(call), piece: "" });
    } else if (!choice.dropping) {
      const last = choice.calls[count - 1] as ToolCallOut;
      last.function.arguments += text;
      parts.push({ at: count - 1, piece: text });
    }
  }
  return parts;
}

function finishReason({ calls, legacy }: Choice, delta: Delta, exchange: Exchange): FinishReason {
  const reason = finishOf(delta.finish ?? "stop", exchange.signal);
  if (calls.length === 0) return reason;
  return legacy ? "function_call" : "tool_calls";
}

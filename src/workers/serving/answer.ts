/** The shapes of /chat/completions answers. The constant parts of a chunk are built once: a token costs one stringify. */
import type { ChatCompletion, ChatLogprobs, FinishReason } from "../../lib/chat/chat_completion.ts";
import type { Usage } from "../../lib/chat/sampling.ts";
import type { ParsedCall } from "./call_parsers.ts";
import type { TokenLogprob } from "./engine/types.ts";

/** `system_fingerprint`: what the request was decoded with, see `fingerprintOf`. */
export type Head = { id: string; created: number; model: string; system_fingerprint: string | null };

const utf8 = new TextDecoder();

const alternative = ({ bytes, logprob }: { bytes: Uint8Array; logprob: number }) => ({
  token: utf8.decode(bytes),
  logprob: finite(logprob),
  bytes: [...bytes],
});

/** JSON has no infinity: an impossible token gets a very low value. */
export const finite = (logprob: number) => Math.max(logprob, -9999);

export const chatLogprobs = (tokens: readonly TokenLogprob[]): ChatLogprobs => ({
  content: tokens.map((token) => ({ ...alternative(token), top_logprobs: token.top.map(alternative) })),
  refusal: null,
});

export type ToolCallOut = { id: string; type: "function"; function: ParsedCall };

export const newToolCall = (call: ParsedCall): ToolCallOut => ({
  id: `call_${crypto.randomUUID().replaceAll("-", "").slice(0, 24)}`,
  type: "function",
  function: call,
});

export type ChatChoice = {
  content: string;
  calls: ToolCallOut[];
  logprobs: TokenLogprob[] | undefined;
  finish: FinishReason;
};

export const chatCompletion = (head: Head, choices: readonly ChatChoice[], usage: Usage): ChatCompletion => ({
  id: head.id,
  object: "chat.completion",
  created: head.created,
  model: head.model,
  system_fingerprint: head.system_fingerprint,
  choices: choices.map(({ content, calls, logprobs, finish }, index) => ({
    index,
    message: {
      role: "assistant",
      content: content === "" && calls.length > 0 ? null : content,
      refusal: null,
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
    },
    logprobs: logprobs ? chatLogprobs(logprobs) : null,
    finish_reason: finish,
  })),
  usage,
});

export type ChunkWriter = {
  role: (index: number) => string;
  content: (index: number, text: string, logprobs?: readonly TokenLogprob[]) => string;
  call: (index: number, position: number, call: ToolCallOut) => string;
  finish: (index: number, reason: FinishReason) => string;
  usage: (usage: Usage) => string;
};

export function createChunkWriter(head: Head, samples: number, withUsage: boolean): ChunkWriter {
  const { id, ...rest } = head;
  const open = JSON.stringify({ id, object: "chat.completion.chunk", ...rest }).slice(0, -1);
  const close = withUsage ? ',"usage":null}\n\n' : "}\n\n";
  const choice = (index: number, delta: string, reason: string, logprobs = "null") =>
    `data: ${open},"choices":[{"index":${index},"delta":${delta},"logprobs":${logprobs},"finish_reason":${reason}}]${close}`;
  const before = Array.from(
    { length: samples },
    (_, index) => `data: ${open},"choices":[{"index":${index},"delta":{"content":`,
  );
  const after = `},"logprobs":null,"finish_reason":null}]${close}`;
  return {
    role: (index) => choice(index, '{"role":"assistant","content":""}', "null"),
    content: (index, text, logprobs) =>
      logprobs === undefined
        ? before[index] + JSON.stringify(text) + after
        : choice(index, `{"content":${JSON.stringify(text)}}`, "null", JSON.stringify(chatLogprobs(logprobs))),
    call: (index, position, call) =>
      choice(index, JSON.stringify({ tool_calls: [{ index: position, ...call }] }), "null"),
    finish: (index, reason) => choice(index, "{}", `"${reason}"`),
    usage: (usage) => `data: ${open},"choices":[],"usage":${JSON.stringify(usage)}}\n\n`,
  };
}

/** The shapes of /chat/completions answers. The constant parts of a chunk are built once: a token costs one stringify. */
import type { ChatCompletion, ChatLogprobs, FinishReason } from "../../lib/chat/chat_completion.ts";
import type { Timings, Usage } from "../../lib/chat/sampling.ts";
import type { ParsedCall } from "./calls/sink.ts";
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

const chatLogprobs = (tokens: readonly TokenLogprob[]): ChatLogprobs => ({
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
  thoughts: string;
  /** The request has `functions`: a call is a `function_call`. */
  legacy: boolean;
  calls: ToolCallOut[];
  logprobs: TokenLogprob[] | undefined;
  finish: FinishReason;
  /** The stop string of the request that ended the answer. */
  stop: string | undefined;
};

type Figures = { usage: Usage; timings: Timings; prompt?: string };

export const chatCompletion = (
  head: Head,
  choices: readonly ChatChoice[],
  { usage, timings, prompt }: Figures,
): ChatCompletion => ({
  id: head.id,
  object: "chat.completion",
  created: head.created,
  model: head.model,
  system_fingerprint: head.system_fingerprint,
  choices: choices.map(({ content, thoughts, calls, legacy, logprobs, finish, stop }, index) => ({
    index,
    message: {
      role: "assistant",
      content: content === "" && calls.length > 0 ? null : content,
      refusal: null,
      ...(thoughts === "" ? {} : { reasoning_content: thoughts.trimEnd() }),
      ...callsOf(calls, legacy),
    },
    logprobs: logprobs ? chatLogprobs(logprobs) : null,
    finish_reason: finish,
    ...(stop === undefined ? {} : { stop_reason: stop }),
  })),
  usage,
  timings,
  ...(prompt === undefined ? {} : { __verbose: { prompt } }),
});

const callsOf = (calls: readonly ToolCallOut[], legacy: boolean) => {
  const [first] = calls;
  if (!first) return {};
  return legacy ? { function_call: first.function } : { tool_calls: [...calls] };
};

export type Progress = { total: number; cache: number; processed: number; time_ms: number };

export type ChunkWriter = {
  role: (index: number) => string;
  content: (index: number, text: string, logprobs?: readonly TokenLogprob[]) => string;
  thoughts: (index: number, text: string) => string;
  call: (index: number, position: number, call: ToolCallOut, legacy: boolean) => string;
  /** A further piece of the arguments of a call. */
  piece: (index: number, position: number, text: string, legacy: boolean) => string;
  finish: (index: number, reason: FinishReason, stop: string | undefined) => string;
  usage: (usage: Usage) => string;
  progress: (index: number, progress: Progress) => string;
};

type ChunkOptions = {
  samples: number;
  withUsage: boolean;
  /** The times so far: in the last chunk of a choice, and in all of them with `each`. */
  timings: () => Timings;
  each: boolean;
};

export function createChunkWriter(head: Head, { samples, withUsage, timings, each }: ChunkOptions): ChunkWriter {
  const { id, ...rest } = head;
  const open = JSON.stringify({ id, object: "chat.completion.chunk", ...rest }).slice(0, -1);
  const close = withUsage ? ',"usage":null}\n\n' : "}\n\n";
  const timed = () => `,"timings":${JSON.stringify(timings())}${close}`;
  const choice = (index: number, delta: string, reason: string, logprobs = "null") =>
    `data: ${open},"choices":[{"index":${index},"delta":${delta},"logprobs":${logprobs},"finish_reason":${reason}}]${each || reason !== "null" ? timed() : close}`;
  const called = (index: number, delta: object) => choice(index, JSON.stringify(delta), "null");
  const before = Array.from(
    { length: samples },
    (_, index) => `data: ${open},"choices":[{"index":${index},"delta":{"content":`,
  );
  const after = `},"logprobs":null,"finish_reason":null}]${close}`;
  return {
    role: (index) => choice(index, '{"role":"assistant","content":""}', "null"),
    content: (index, text, logprobs) =>
      logprobs === undefined && !each
        ? before[index] + JSON.stringify(text) + after
        : choice(
            index,
            `{"content":${JSON.stringify(text)}}`,
            "null",
            logprobs === undefined ? "null" : JSON.stringify(chatLogprobs(logprobs)),
          ),
    thoughts: (index, text) => called(index, { reasoning_content: text }),
    call: (index, position, call, legacy) =>
      called(index, legacy ? { function_call: call.function } : { tool_calls: [{ index: position, ...call }] }),
    piece: (index, position, text, legacy) =>
      called(
        index,
        legacy
          ? { function_call: { arguments: text } }
          : { tool_calls: [{ index: position, function: { arguments: text } }] },
      ),
    progress: (index, progress) =>
      `data: ${open},"choices":[{"index":${index},"delta":{},"logprobs":null,"finish_reason":null}],"prompt_progress":${JSON.stringify(progress)}${close}`,
    finish: (index, reason, stop) =>
      choice(index, "{}", stop === undefined ? `"${reason}"` : `"${reason}","stop_reason":${JSON.stringify(stop)}`),
    usage: (usage) => `data: ${open},"choices":[],"usage":${JSON.stringify(usage)}}\n\n`,
  };
}

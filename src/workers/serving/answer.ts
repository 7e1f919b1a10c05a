/** The shapes of /chat/completions answers. The constant parts of a chunk are built once: a token costs one stringify. */
import type { ChatCompletion, ChatLogprobs, FinishReason } from "../../lib/chat/chat_completion.ts";
import type { CustomCall } from "../../lib/chat/messages.ts";
import type { Timings, Usage } from "../../lib/chat/sampling.ts";
import { customInput } from "../../lib/chat/tools.ts";
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
  /** Names of custom tools: their calls have a text instead of arguments. */
  custom: ReadonlySet<string>;
  logprobs: TokenLogprob[] | undefined;
  /** Undefined: the client does not ask for them. */
  tokens: number[] | undefined;
  finish: FinishReason;
  /** The stop string of the request that ended the answer. */
  stop: string | undefined;
};

type Figures = { usage: Usage; timings: Timings; prompt?: string; promptTokens?: readonly number[] };

export const chatCompletion = (
  head: Head,
  choices: readonly ChatChoice[],
  { usage, timings, prompt, promptTokens }: Figures,
): ChatCompletion => ({
  id: head.id,
  object: "chat.completion",
  created: head.created,
  model: head.model,
  system_fingerprint: head.system_fingerprint,
  choices: choices.map(({ content, thoughts, calls, custom, legacy, logprobs, tokens, finish, stop }, index) => ({
    index,
    message: {
      role: "assistant",
      content: content === "" && calls.length > 0 ? null : content,
      refusal: null,
      ...(thoughts === "" ? {} : { reasoning_content: thoughts.trimEnd() }),
      ...callsOf(calls, { custom, legacy }),
    },
    logprobs: logprobs ? chatLogprobs(logprobs) : null,
    finish_reason: finish,
    ...(stop === undefined ? {} : { stop_reason: stop }),
    ...(tokens === undefined ? {} : { token_ids: tokens }),
  })),
  ...(promptTokens === undefined ? {} : { prompt_token_ids: [...promptTokens] }),
  usage,
  timings,
  ...(prompt === undefined ? {} : { __verbose: { prompt } }),
});

const callsOf = (calls: readonly ToolCallOut[], { custom, legacy }: Pick<ChatChoice, "custom" | "legacy">) => {
  const [first] = calls;
  if (!first) return {};
  return legacy ? { function_call: first.function } : { tool_calls: calls.map((call) => shownCall(call, custom)) };
};

const shownCall = (call: ToolCallOut, custom: ReadonlySet<string>): ToolCallOut | CustomCall =>
  custom.has(call.function.name) ? customCall(call) : call;

const customCall = ({ id, function: { name, arguments: args } }: ToolCallOut): CustomCall => ({
  id,
  type: "custom",
  custom: { name, input: customInput(args) },
});

export type Progress = { total: number; cache: number; processed: number; time_ms: number };

export type ChunkWriter = {
  /** The next chunk of this choice has these tokens. */
  bring: (index: number, tokens: Int32Array) => void;
  /** A chunk for the tokens that no other chunk has taken. */
  rest: (index: number) => string;
  role: (index: number) => string;
  content: (index: number, text: string, logprobs?: readonly TokenLogprob[]) => string;
  thoughts: (index: number, text: string) => string;
  call: (index: number, position: number, call: ToolCallOut, legacy: boolean) => string;
  /** A further piece of the arguments of a call. */
  piece: (index: number, position: number, text: string, legacy: boolean) => string;
  /** A call of a custom tool comes whole. */
  custom: (index: number, position: number, call: ToolCallOut) => string;
  finish: (index: number, reason: FinishReason, stop: string | undefined) => string;
  usage: (usage: Usage) => string;
  progress: (index: number, progress: Progress) => string;
};

type ChunkOptions = {
  samples: number;
  withUsage: boolean;
  /** The times so far: in the last chunk of a choice, with the usage, and with `each` in all but the first. */
  timings: () => Timings;
  each: boolean;
  /** The content beside the role, before the first text. */
  opening: "" | null;
  /** In the first chunk. */
  promptTokens?: readonly number[] | undefined;
};

export function createChunkWriter(
  head: Head,
  { samples, withUsage, timings, each, opening, promptTokens }: ChunkOptions,
): ChunkWriter {
  const { id, ...rest } = head;
  const open = JSON.stringify({ id, object: "chat.completion.chunk", ...rest }).slice(0, -1);
  const close = withUsage ? ',"usage":null}\n\n' : "}\n\n";
  const timed = () => `,"timings":${JSON.stringify(timings())}${close}`;
  const brought = new Map<number, string>();
  const takeTokens = (index: number) => {
    const tokens = brought.get(index) ?? "";
    brought.delete(index);
    return tokens;
  };
  let read = promptTokens === undefined ? "" : `,"prompt_token_ids":[${promptTokens.join()}]`;
  const takePrompt = () => {
    const prompt = read;
    read = "";
    return prompt;
  };
  const untimed = (index: number, delta: string, reason: string, logprobs = "null") =>
    `data: ${open},"choices":[{"index":${index},"delta":${delta},"logprobs":${logprobs},"finish_reason":${reason}${takeTokens(index)}}]`;
  const choice = (index: number, delta: string, reason: string, logprobs?: string) =>
    untimed(index, delta, reason, logprobs) + (each || reason !== "null" ? timed() : close);
  const called = (index: number, delta: object) => choice(index, JSON.stringify(delta), "null");
  const before = Array.from(
    { length: samples },
    (_, index) => `data: ${open},"choices":[{"index":${index},"delta":{"content":`,
  );
  const after = `},"logprobs":null,"finish_reason":null}]${close}`;
  return {
    bring: (index, tokens) => void brought.set(index, `,"token_ids":[${tokens.join()}]`),
    rest: (index) => (brought.has(index) ? choice(index, "{}", "null") : ""),
    role: (index) =>
      untimed(index, JSON.stringify({ role: "assistant", content: opening }), "null") + takePrompt() + close,
    content: (index, text, logprobs) =>
      logprobs === undefined && !each && !brought.has(index)
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
    custom: (index, position, call) => called(index, { tool_calls: [{ index: position, ...customCall(call) }] }),
    progress: (index, progress) =>
      `data: ${open},"choices":[{"index":${index},"delta":{},"logprobs":null,"finish_reason":null}],"prompt_progress":${JSON.stringify(progress)}${close}`,
    finish: (index, reason, stop) =>
      choice(index, "{}", stop === undefined ? `"${reason}"` : `"${reason}","stop_reason":${JSON.stringify(stop)}`),
    usage: (usage) =>
      `data: ${open},"choices":[],"usage":${JSON.stringify(usage)},"timings":${JSON.stringify(timings())}}\n\n`,
  };
}

/** Answers of the chat and completion routes as Ollama writes them: one JSON object on each line. One instance a stream. */
import type { ChatCompletion, ChatCompletionChunk, ChatLogprobs } from "../../../lib/chat/chat_completion.ts";
import type { Completion, CompletionLogprobs } from "../../../lib/chat/completion.ts";
import type { Timings, Usage } from "../../../lib/chat/sampling.ts";
import { isFunctionCall } from "../../../lib/chat/tools.ts";
import type { Translator } from "../translated.ts";

type Call = { id?: string | undefined; name: string; text: string };
type Scored = { token: string; logprob: number; bytes: number[] };
type Logprobs = (Scored & { top_logprobs?: Scored[] })[];
type Ended = { reason: string; usage?: Usage | null | undefined; timings?: Timings | undefined };
type Piece = { text: string; thoughts: string; calls: readonly Call[] };
/** Writes the fields of an answer that differ between /api/chat and /api/generate. */
type Write = (piece: Piece) => object;

const NS = 1_000_000; // nanoseconds of a millisecond
const line = (object: object) => `${JSON.stringify(object)}\n`;

/** Arguments that a model cut off are no object. The call keeps its name. */
function argumentsOf(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

const writeMessage: Write = ({ text, thoughts, calls }) => ({
  message: {
    role: "assistant",
    content: text,
    ...(thoughts === "" ? {} : { thinking: thoughts }),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map((call) => ({
            ...(call.id === undefined ? {} : { id: call.id }),
            function: { name: call.name, arguments: argumentsOf(call.text) },
          })),
        }),
  },
});
const writeText: Write = ({ text, thoughts }) => ({
  response: text,
  ...(thoughts === "" ? {} : { thinking: thoughts }),
});

function endFields({ reason, usage, timings }: Ended) {
  const prompt = Math.round((timings?.prompt_ms ?? 0) * NS);
  const predicted = Math.round((timings?.predicted_ms ?? 0) * NS);
  return {
    done: true,
    done_reason: reason === "length" ? "length" : "stop",
    total_duration: prompt + predicted,
    load_duration: 0,
    prompt_eval_count: usage?.prompt_tokens ?? 0,
    prompt_eval_duration: prompt,
    eval_count: usage?.completion_tokens ?? 0,
    eval_duration: predicted,
  };
}

const bytesOf = (text: string) => [...Buffer.from(text)];

/** Log-probabilities of a chat answer. */
function chatLogprobs(logprobs: ChatLogprobs | null | undefined): { logprobs?: Logprobs } {
  if (!logprobs?.content?.length) return {};
  const scored = ({ token, logprob, bytes }: { token: string; logprob: number; bytes: number[] | null }): Scored => ({
    token,
    logprob,
    bytes: bytes ?? bytesOf(token),
  });
  return {
    logprobs: logprobs.content.map((token) => ({
      ...scored(token),
      ...(token.top_logprobs.length === 0 ? {} : { top_logprobs: token.top_logprobs.map(scored) }),
    })),
  };
}

/** Log-probabilities of a completion. */
function textLogprobs(logprobs: CompletionLogprobs | null | undefined): { logprobs?: Logprobs } {
  if (!logprobs?.tokens.length) return {};
  return {
    logprobs: logprobs.tokens.map((token, i) => {
      const top = Object.entries(logprobs.top_logprobs?.[i] ?? {});
      const alternatives = top.map(([text, logprob]) => ({ token: text, logprob, bytes: bytesOf(text) }));
      return {
        token,
        logprob: logprobs.token_logprobs[i] ?? 0,
        bytes: bytesOf(token),
        ...(alternatives.length === 0 ? {} : { top_logprobs: alternatives }),
      };
    }),
  };
}

/** The tokens of a conversation with this answer; undefined: the answer has none. */
export type ContextOf = (text: string) => Promise<number[]>;
/** A deployment that stops meanwhile has no tokens. The answer is complete without them. */
const contextField = async (contextOf: ContextOf | undefined, text: string): Promise<{ context?: number[] }> =>
  contextOf
    ? contextOf(text).then(
        (context) => ({ context }),
        () => ({}),
      )
    : {};

const NOTHING: Piece = { text: "", thoughts: "", calls: [] };

/** `now`: the time of a line, as text. */
type Parts = { write: Write; now: () => string; contextOf?: ContextOf | undefined };

/** The state of one stream. */
function createLines({ write, now, contextOf }: Parts) {
  const calls: Call[] = [];
  const ended: Ended = { reason: "stop" };
  let model = "";
  let said = "";
  const part = (piece: Piece, more: object = {}) =>
    line({ model, created_at: now(), ...write(piece), ...more, done: false });
  return {
    calls,
    ended,
    chunk(name: string, { text, thoughts }: Omit<Piece, "calls">, scored: { logprobs?: Logprobs }): string {
      model = name;
      if (contextOf) said += text;
      return text === "" && thoughts === "" && !scored.logprobs ? "" : part({ text, thoughts, calls: [] }, scored);
    },
    /** Calls come whole, so they wait for the end. */
    async end(): Promise<string> {
      const context = await contextField(contextOf, said);
      const last = line({ model, created_at: now(), ...write(NOTHING), ...endFields(ended), ...context });
      return calls.length > 0 ? part({ ...NOTHING, calls }) + last : last;
    },
  };
}

/** A blank before the next line is no line of its own, and every reader of JSON skips it. */
const NDJSON = { streamType: "application/x-ndjson", error: (message: string) => line({ error: message }), ping: " " };

export function createChatTranslator(
  kind: "chat" | "generate",
  now: () => string,
  contextOf?: ContextOf,
): Translator<ChatCompletion, ChatCompletionChunk> {
  const write = kind === "chat" ? writeMessage : writeText;
  const lines = createLines({ write, now, contextOf });
  return {
    ...NDJSON,
    async whole({ model, choices: [choice], usage, timings }) {
      const {
        content,
        reasoning_content: thoughts = "",
        tool_calls: toolCalls = [],
      } = choice?.message ?? { content: "" };
      const calls = toolCalls
        .filter(isFunctionCall)
        .map((call) => ({ id: call.id, name: call.function.name, text: call.function.arguments }));
      const piece = { text: content ?? "", thoughts, calls };
      const end = endFields({ reason: choice?.finish_reason ?? "stop", usage, timings });
      const more = { ...chatLogprobs(choice?.logprobs), ...(await contextField(contextOf, piece.text)) };
      return { model, created_at: now(), ...write(piece), ...end, ...more };
    },
    chunk({ model, choices: [choice], usage, timings }) {
      Object.assign(lines.ended, usage ? { usage } : {}, timings ? { timings } : {});
      const { content, reasoning_content: thoughts, tool_calls: parts = [] } = choice?.delta ?? {};
      for (const { id, function: call } of parts.filter(isFunctionCall)) {
        if (call.name !== undefined) lines.calls.push({ id, name: call.name, text: "" });
        const last = lines.calls.at(-1);
        if (last) last.text += call.arguments ?? "";
      }
      if (choice?.finish_reason) lines.ended.reason = choice.finish_reason;
      return lines.chunk(model, { text: content ?? "", thoughts: thoughts ?? "" }, chatLogprobs(choice?.logprobs));
    },
    end: () => lines.end(),
  };
}

export function createTextTranslator(now: () => string, contextOf?: ContextOf): Translator<Completion, Completion> {
  const lines = createLines({ write: writeText, now, contextOf });
  return {
    ...NDJSON,
    async whole({ model, choices: [choice], usage, timings }) {
      const end = endFields({ reason: choice?.finish_reason ?? "stop", usage, timings });
      const text = choice?.text ?? "";
      const more = { ...textLogprobs(choice?.logprobs), ...(await contextField(contextOf, text)) };
      return { model, created_at: now(), ...writeText({ ...NOTHING, text }), ...end, ...more };
    },
    chunk({ model, choices: [choice], usage, timings }) {
      Object.assign(lines.ended, usage ? { usage } : {}, timings ? { timings } : {});
      if (choice?.finish_reason) lines.ended.reason = choice.finish_reason;
      return lines.chunk(model, { text: choice?.text ?? "", thoughts: "" }, textLogprobs(choice?.logprobs));
    },
    end: () => lines.end(),
  };
}

/** The answer to a request without a prompt, which only loads the model, or no longer needs it. */
export const emptyAnswer = (
  kind: "chat" | "generate",
  { model, now, reason }: { model: string; now: string; reason: "load" | "unload" },
) => ({
  model,
  created_at: now,
  ...(kind === "chat" ? writeMessage : writeText)(NOTHING),
  done: true,
  done_reason: reason,
});

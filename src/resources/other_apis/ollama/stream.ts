/** Answers of the chat and completion routes as Ollama writes them: one JSON object on each line. One instance a stream. */
import type { ChatCompletion, ChatCompletionChunk } from "../../../lib/chat/chat_completion.ts";
import type { Completion } from "../../../lib/chat/completion.ts";
import type { Timings, Usage } from "../../../lib/chat/sampling.ts";
import { isFunctionCall } from "../../../lib/chat/tools.ts";
import type { Translator } from "../translated.ts";

type Call = { id?: string | undefined; name: string; text: string };
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

const NOTHING: Piece = { text: "", thoughts: "", calls: [] };

/** The state of one stream. `now`: the time of a line, as text. */
function createLines(write: Write, now: () => string) {
  const calls: Call[] = [];
  const ended: Ended = { reason: "stop" };
  let model = "";
  const part = (piece: Piece) => line({ model, created_at: now(), ...write(piece), done: false });
  return {
    calls,
    ended,
    chunk(name: string, text: string, thoughts: string): string {
      model = name;
      return text === "" && thoughts === "" ? "" : part({ text, thoughts, calls: [] });
    },
    /** Calls come whole, so they wait for the end. */
    end: () =>
      (calls.length > 0 ? part({ ...NOTHING, calls }) : "") +
      line({ model, created_at: now(), ...write(NOTHING), ...endFields(ended) }),
  };
}

/** A blank before the next line is no line of its own, and every reader of JSON skips it. */
const NDJSON = { streamType: "application/x-ndjson", error: (message: string) => line({ error: message }), ping: " " };

export function createChatTranslator(
  kind: "chat" | "generate",
  now: () => string,
): Translator<ChatCompletion, ChatCompletionChunk> {
  const write = kind === "chat" ? writeMessage : writeText;
  const lines = createLines(write, now);
  return {
    ...NDJSON,
    whole({ model, choices: [choice], usage, timings }) {
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
      return { model, created_at: now(), ...write(piece), ...end };
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
      return lines.chunk(model, content ?? "", thoughts ?? "");
    },
    end: () => lines.end(),
  };
}

export function createTextTranslator(now: () => string): Translator<Completion, Completion> {
  const lines = createLines(writeText, now);
  return {
    ...NDJSON,
    whole({ model, choices: [choice], usage, timings }) {
      const end = endFields({ reason: choice?.finish_reason ?? "stop", usage, timings });
      return { model, created_at: now(), ...writeText({ ...NOTHING, text: choice?.text ?? "" }), ...end };
    },
    chunk({ model, choices: [choice], usage, timings }) {
      Object.assign(lines.ended, usage ? { usage } : {}, timings ? { timings } : {});
      if (choice?.finish_reason) lines.ended.reason = choice.finish_reason;
      return lines.chunk(model, choice?.text ?? "", "");
    },
    end: () => lines.end(),
  };
}

/** The answer to a request without a prompt, which only loads the model. */
export const loadedAnswer = (kind: "chat" | "generate", model: string, now: string) => ({
  model,
  created_at: now,
  ...(kind === "chat" ? writeMessage : writeText)(NOTHING),
  done: true,
  done_reason: "load",
});

/** A streamed answer as Google writes it. One instance for each stream. */
import { googleStreamError } from "../../../http/answer/client_errors.ts";
import type { ChatCompletion, ChatCompletionChunk } from "../../../lib/chat/chat_completion.ts";
import type { Usage } from "../../../lib/chat/sampling.ts";
import { isFunctionCall } from "../../../lib/chat/tools.ts";
import { sseData } from "../../../lib/net/sse.ts";
import type { Translator } from "../translated.ts";
import type { AnswerPart, GenerateContentAnswer } from "./schema.ts";
import { callPart, endOf, toAnswer, usageOf } from "./translate.ts";

type Candidate = { calls: { id: string; name: string; text: string }[]; end?: "STOP" | "MAX_TOKENS" };

/** `thoughts`: the stream has them as parts. */
export function createGoogleTranslator(thoughts: boolean): Translator<ChatCompletion, ChatCompletionChunk> {
  const candidates = new Map<number, Candidate>();
  let head = { modelVersion: "", responseId: "" };
  let usage: Usage | undefined;
  const write = (list: GenerateContentAnswer["candidates"]) =>
    sseData(JSON.stringify({ candidates: list, ...(usage ? { usageMetadata: usageOf(usage) } : {}), ...head }));
  const content = (parts: AnswerPart[]) => ({ role: "model" as const, parts });
  return {
    whole: toAnswer(thoughts),
    chunk({ id, model, choices, usage: counted }) {
      head = { modelVersion: model, responseId: id };
      if (counted) usage = counted;
      let text = "";
      for (const { index, delta, finish_reason } of choices) {
        const candidate: Candidate = candidates.get(index) ?? { calls: [] };
        candidates.set(index, candidate);
        for (const { id: call = "", function: part } of (delta.tool_calls ?? []).filter(isFunctionCall)) {
          if (part.name !== undefined) candidate.calls.push({ id: call, name: part.name, text: "" });
          const last = candidate.calls.at(-1);
          if (last) last.text += part.arguments ?? "";
        }
        if (finish_reason) candidate.end = endOf(finish_reason);
        const { content: words, reasoning_content: thought } = delta;
        if (thoughts && thought) text += write([{ content: content([{ text: thought, thought: true }]), index }]);
        if (words) text += write([{ content: content([{ text: words }]), index }]);
      }
      return text;
    },
    /** Calls come whole, with the end and the numbers of tokens. */
    end: () =>
      write(
        [...candidates].map(([index, { calls, end = "STOP" }]) => ({
          content: content(calls.length > 0 ? calls.map(callPart) : [{ text: "" }]),
          finishReason: end,
          index,
        })),
      ),
    /** Google's clients look for an error outside of the events. */
    error: (message, code) => JSON.stringify(googleStreamError(code, message)),
  };
}

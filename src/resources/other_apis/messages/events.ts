/** The events of a streamed message. Pure: one instance for each stream. */
import { anthropicTypeOf } from "../../../http/answer/client_errors.ts";
import type { ChatCompletion, ChatCompletionChunk } from "../../../lib/chat/chat_completion.ts";
import { isFunctionCall } from "../../../lib/chat/tools.ts";
import type { Translator } from "../translated.ts";
import type { Message } from "./schema.ts";
import { countTokens, endOf, idOf, toMessage, usageOf } from "./translate.ts";

const event = (data: { type: string }) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;

type Kind = "text" | "thinking" | "tool_use";

export function createMessageTranslator(): Translator<ChatCompletion, ChatCompletionChunk> {
  let begun = false;
  let index = -1;
  let open: Kind | undefined;
  let ended: Pick<Message, "stop_reason" | "stop_sequence"> = { stop_reason: null, stop_sequence: null };
  let usage = countTokens(0, 0, 0);
  const close = () => {
    if (open === undefined) return "";
    open = undefined;
    return event({ type: "content_block_stop", index } as never);
  };
  /** A block of another kind, or another call, begins with its own event. */
  const start = (kind: Kind, block: object) => {
    const before = close();
    index++;
    open = kind;
    return before + event({ type: "content_block_start", index, content_block: { type: kind, ...block } } as never);
  };
  const delta = (fields: object) => event({ type: "content_block_delta", index, delta: fields } as never);
  const begin = ({ id, model, prompt_progress: read }: ChatCompletionChunk) => {
    begun = true;
    if (read) usage = countTokens(read.total, read.cache, 0);
    const empty = { content: [], ...ended, usage };
    const message = { id: idOf(id), type: "message", role: "assistant", model, ...empty };
    return event({ type: "message_start", message } as never);
  };
  return {
    whole: toMessage,
    chunk(chunk) {
      let out = begun ? "" : begin(chunk);
      if (chunk.usage) usage = usageOf(chunk.usage);
      const choice = chunk.choices[0];
      if (!choice) return out;
      const { content, reasoning_content: thoughts, tool_calls: calls = [] } = choice.delta;
      if (thoughts) {
        if (open !== "thinking") out += start("thinking", { thinking: "", signature: "" });
        out += delta({ type: "thinking_delta", thinking: thoughts });
      }
      if (content) {
        if (open !== "text") out += start("text", { text: "" });
        out += delta({ type: "text_delta", text: content });
      }
      for (const { id, function: part } of calls.filter(isFunctionCall)) {
        if (part.name !== undefined) out += start("tool_use", { id, name: part.name, input: {} });
        if (part.arguments) out += delta({ type: "input_json_delta", partial_json: part.arguments });
      }
      if (choice.finish_reason) ended = endOf(choice.finish_reason, choice.stop_reason);
      return out;
    },
    end: () =>
      close() + event({ type: "message_delta", delta: ended, usage } as never) + event({ type: "message_stop" }),
    error: (message, code) => event({ type: "error", error: { type: anthropicTypeOf(code), message } } as never),
    ping: event({ type: "ping" }),
  };
}

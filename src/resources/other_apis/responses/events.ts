/** The events of a streamed response. Pure: one instance for each stream. */
import type { ChatCompletion, ChatCompletionChunk, FinishReason } from "../../../lib/chat/chat_completion.ts";
import { AppError } from "../../../lib/errors.ts";
import type { Translator } from "../translated.ts";
import type { OutputItem } from "./items.ts";
import type { ModelResponse } from "./schema.ts";
import { endOf, itemId, toResponse, usageOf } from "./translate.ts";

type Chunk = ChatCompletionChunk;
type Choice = Chunk["choices"][number];

/** `blank`: the response before its first token. `ended`: called once with the response, before its last event is sent. */
export function createResponseTranslator(
  blank: ModelResponse,
  ended: (response: ModelResponse) => Promise<void>,
): Translator<ChatCompletion, Chunk> & { last: (usage: ModelResponse["usage"]) => string } {
  let sequence = 0;
  let begun = false;
  let open: OutputItem | undefined;
  let reason: FinishReason = "stop";
  let usage: ModelResponse["usage"] = null;
  const output: OutputItem[] = [];
  const event = (type: string, fields: object) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence++, ...fields })}\n\n`;
  const at = () => ({ item_id: open?.id, output_index: output.length });
  const begin = () => {
    begun = true;
    return event("response.created", { response: blank }) + event("response.in_progress", { response: blank });
  };

  /** Ends the open item with its own events. */
  function close(status: "completed" | "incomplete"): string {
    if (!open) return "";
    const item = { ...open, status };
    let out = "";
    if (item.type === "function_call")
      out = event("response.function_call_arguments.done", { ...at(), name: item.name, arguments: item.arguments });
    else if (item.type === "custom_tool_call")
      out = event("response.custom_tool_call_input.done", { ...at(), input: item.input });
    else {
      const [part] = item.content;
      const name = item.type === "message" ? "response.output_text.done" : "response.reasoning_text.done";
      const logprobs = part?.type === "output_text" ? { logprobs: part.logprobs } : {};
      out =
        event(name, { ...at(), content_index: 0, text: part?.text, ...logprobs }) +
        event("response.content_part.done", { ...at(), content_index: 0, part });
    }
    out += event("response.output_item.done", { output_index: output.length, item });
    output.push(item);
    open = undefined;
    return out;
  }

  function start(item: OutputItem): string {
    const before = close("completed");
    const named = { ...item, id: itemId(PREFIXES[item.type], blank.id, output.length) };
    open = named;
    const isCall = named.type === "function_call" || named.type === "custom_tool_call";
    const bare = isCall ? named : { ...named, content: [] };
    const added = event("response.output_item.added", { output_index: output.length, item: bare });
    if (isCall) return before + added;
    return before + added + event("response.content_part.added", { ...at(), content_index: 0, part: named.content[0] });
  }

  function text(delta: string, logprobs: Choice["logprobs"]): string {
    const before = open?.type === "message" ? "" : start(structuredClone(MESSAGE));
    const part = open?.type === "message" ? open.content[0] : undefined;
    if (part) part.text += delta;
    const scored = logprobs?.content ?? [];
    part?.logprobs.push(...scored);
    return before + event("response.output_text.delta", { ...at(), content_index: 0, delta, logprobs: scored });
  }

  function thoughts(delta: string): string {
    const before = open?.type === "reasoning" ? "" : start(structuredClone(REASONING));
    const part = open?.type === "reasoning" ? open.content[0] : undefined;
    if (part) part.text += delta;
    return before + event("response.reasoning_text.delta", { ...at(), content_index: 0, delta });
  }

  function call(delta: NonNullable<Choice["delta"]["tool_calls"]>[number]): string {
    let out = "";
    if (delta.type === "custom") {
      const { id, custom } = delta;
      out = start({ ...CUSTOM_CALL, call_id: id, name: custom.name });
      if (open?.type === "custom_tool_call") open.input = custom.input;
      return out + event("response.custom_tool_call_input.delta", { ...at(), delta: custom.input });
    }
    const { id, function: piece } = delta;
    if (piece.name !== undefined) out += start({ ...CALL, call_id: id ?? "", name: piece.name });
    if (!piece.arguments || open?.type !== "function_call") return out;
    open.arguments += piece.arguments;
    return out + event("response.function_call_arguments.delta", { ...at(), delta: piece.arguments });
  }

  const finished = (): ModelResponse => ({ ...blank, ...endOf(reason), output, usage });
  function failure(message: string, code = "server_error"): string {
    const out = begun ? "" : begin();
    const error = { code, message };
    const response = { ...finished(), status: "failed", incomplete_details: null, error };
    return out + event("error", { ...error, param: null }) + event("response.failed", { response });
  }

  return {
    async whole(answer) {
      const response = toResponse(blank, answer);
      await ended(response);
      return response;
    },
    chunk({ choices: [choice], usage: counted }) {
      let out = begun ? "" : begin();
      if (counted) usage = usageOf(counted);
      if (!choice) return out;
      const { content, reasoning_content: thought, tool_calls: calls = [] } = choice.delta;
      if (thought) out += thoughts(thought);
      if (content) out += text(content, choice.logprobs);
      for (const each of calls) out += call(each);
      if (choice.finish_reason) reason = choice.finish_reason;
      return out;
    },
    async end() {
      const out = begun ? "" : begin();
      const before = close(reason === "length" ? "incomplete" : "completed");
      const response = finished();
      try {
        await ended(response);
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        return out + before + failure(error.message, error.code);
      }
      return out + before + event(`response.${response.status}`, { response });
    },
    /** The end of a response that is stored already. */
    last(counted) {
      usage = counted;
      const before = close(reason === "length" ? "incomplete" : "completed");
      const response = finished();
      return before + event(`response.${response.status}`, { response });
    },
    error: failure,
  };
}

const PREFIXES = { message: "msg", function_call: "fc", custom_tool_call: "ctc", reasoning: "rs" } as const;
const state = { id: "", status: "in_progress" as const };
const EMPTY_TEXT = { type: "output_text" as const, text: "", annotations: [], logprobs: [] };
const MESSAGE: OutputItem = { type: "message", ...state, role: "assistant", content: [EMPTY_TEXT] };
const REASONING: OutputItem = {
  type: "reasoning",
  ...state,
  summary: [],
  content: [{ type: "reasoning_text", text: "" }],
};
const CALL = { type: "function_call" as const, ...state, arguments: "" };
const CUSTOM_CALL = { type: "custom_tool_call" as const, ...state, input: "" };

/** The whole answer of a streamed chat, put together from its chunks. Pure: one instance for each stream. */
import type { ChatCompletion, ChatCompletionChunk, ToolCallDelta } from "../../../lib/chat/chat_completion.ts";

type Choice = ChatCompletion["choices"][number];
type Call = NonNullable<Choice["message"]["tool_calls"]>[number];

export function createCollector() {
  let head: Pick<ChatCompletion, "id" | "created" | "model" | "system_fingerprint"> | undefined;
  let usage: ChatCompletion["usage"] = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
  const choices: Choice[] = [];
  const choiceAt = (index: number): Choice => {
    choices[index] ??= {
      index,
      message: { role: "assistant", content: "", refusal: null },
      logprobs: null,
      finish_reason: "stop",
    };
    return choices[index];
  };
  return {
    add(chunk: ChatCompletionChunk) {
      const { id, created, model, system_fingerprint } = chunk;
      head ??= { id, created, model, system_fingerprint };
      usage = chunk.usage ?? usage;
      for (const { index, delta, logprobs, finish_reason: reason } of chunk.choices) {
        const choice = choiceAt(index);
        addDelta(choice.message, delta);
        if (logprobs?.content)
          choice.logprobs = { content: [...(choice.logprobs?.content ?? []), ...logprobs.content], refusal: null };
        if (reason) choice.finish_reason = reason;
      }
    },
    /** Undefined: no chunk has come. */
    whole(): ChatCompletion | undefined {
      if (!head) return undefined;
      for (const { message } of choices)
        if (message.content === "" && (message.tool_calls || message.function_call)) message.content = null;
      return { ...head, object: "chat.completion", choices, usage };
    },
  };
}

type Delta = ChatCompletionChunk["choices"][number]["delta"];

function addDelta(message: Choice["message"], delta: Delta) {
  const { content, reasoning_content: thoughts, tool_calls: calls = [], function_call: call } = delta;
  message.content = (message.content ?? "") + (content ?? "");
  if (thoughts) message.reasoning_content = (message.reasoning_content ?? "") + thoughts;
  if (call) {
    const { name = "", arguments: text = "" } = message.function_call ?? {};
    message.function_call = { name: name + (call.name ?? ""), arguments: text + (call.arguments ?? "") };
  }
  if (calls.length === 0) return;
  message.tool_calls ??= [];
  for (const each of calls) addCall(message.tool_calls, each);
}

function addCall(calls: Call[], delta: ToolCallDelta) {
  const { index, ...rest } = delta;
  if ("custom" in rest) {
    calls[index] = rest;
    return;
  }
  const before = calls[index];
  const { name = "", arguments: text = "" } = before && "function" in before ? before.function : {};
  calls[index] = {
    id: before?.id ?? rest.id ?? "",
    type: "function",
    function: { name: name + (rest.function.name ?? ""), arguments: text + (rest.function.arguments ?? "") },
  };
}

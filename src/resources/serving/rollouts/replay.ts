/** A recorded answer as the answer to the same request: whole, or as a stream. */
import type { ChatCompletion, ChatCompletionRequest, ToolCallDelta } from "../../../lib/chat/chat_completion.ts";
import { SSE_DONE, SSE_HEADERS, sseData } from "../../../lib/net/sse.ts";

export function replayed(body: ChatCompletionRequest, completion: ChatCompletion, traceId: string): Response {
  const trace = { "x-trace-id": traceId };
  if (!body.stream) return Response.json(completion, { headers: trace });
  const { id, created, model, system_fingerprint, choices, usage } = completion;
  const head = { id, object: "chat.completion.chunk" as const, created, model, system_fingerprint };
  const events: object[] = [];
  for (const { index, message, finish_reason } of choices) {
    const add = (delta: object, reason: string | null = null) =>
      void events.push({ ...head, choices: [{ index, delta, logprobs: null, finish_reason: reason }] });
    const { content, reasoning_content: thoughts, tool_calls: calls, function_call: call } = message;
    add({ role: "assistant", content: "" });
    if (thoughts) add({ reasoning_content: thoughts });
    if (content) add({ content });
    if (call) add({ function_call: call });
    for (const [at, each] of (calls ?? []).entries())
      add({ tool_calls: [{ ...each, index: at } satisfies ToolCallDelta] });
    add({}, finish_reason);
  }
  if (body.return_progress) {
    const { prompt_tokens: total } = usage;
    const progress = { total, cache: total, processed: total, time_ms: 0 };
    const empty = [{ index: 0, delta: {}, logprobs: null, finish_reason: null }];
    events.unshift({ ...head, choices: empty, prompt_progress: progress });
  }
  if (body.stream_options?.include_usage) events.push({ ...head, choices: [], usage });
  const text = events.map((event) => sseData(JSON.stringify(event))).join("") + SSE_DONE;
  return new Response(text, { headers: { ...SSE_HEADERS, ...trace } });
}

/** The events of a stored response. A response that is still worked on is followed to its end. */
import type { Ctx } from "../../../context.ts";
import type { SseMessage } from "../../../lib/net/sse.ts";
import { createResponseTranslator } from "./events.ts";
import type { ModelResponse } from "./schema.ts";
import { mustGet, present } from "./service.ts";

const POLL_MS = 300;
const BEGINNING = 2; // events before the first item: created, in_progress

type Following = { workspaceId: string; id: string; after: number; signal: AbortSignal };

/** `after`: the number of the last event that the reader has; -1 = none. */
export async function* follow(ctx: Ctx, { workspaceId, id, after, signal }: Following): AsyncGenerator<SseMessage> {
  const read = () => present(mustGet(ctx, workspaceId, id));
  let response = read();
  const beginning = isOver(response) ? [] : eventsOf(response).slice(0, BEGINNING);
  yield* beginning.slice(after + 1);
  while (!isOver(response)) {
    await ctx.clock.sleep(POLL_MS, signal);
    if (signal.aborted) return;
    response = read();
  }
  yield* eventsOf(response).slice(Math.max(after + 1, beginning.length));
}

const isOver = ({ status }: ModelResponse) => status !== "queued" && status !== "in_progress";

/** Pure. Each text and each call comes in one piece. */
export function eventsOf(response: ModelResponse): SseMessage[] {
  const { output, usage, error } = response;
  const blank = { ...response, status: "in_progress" as const, output: [], usage: null };
  const translator = createResponseTranslator({ ...blank, error: null, incomplete_details: null }, async () => {});
  const head = { id: "", created: 0, model: response.model, object: "chat.completion.chunk" as const };
  const chunk = (delta: object, end: "length" | "stop" | null = null) =>
    translator.chunk({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason: end }] });
  let text = chunk({});
  for (const [index, item] of output.entries()) {
    if (item.type === "reasoning") text += chunk({ reasoning_content: item.content[0]?.text ?? "" });
    else if (item.type === "message") text += chunk({ content: item.content[0]?.text ?? "" });
    else if (item.type === "custom_tool_call") {
      const custom = { name: item.name, input: item.input };
      text += chunk({ tool_calls: [{ index, id: item.call_id, type: "custom", custom }] });
    } else {
      const named = { name: item.name, arguments: item.arguments };
      text += chunk({ tool_calls: [{ index, id: item.call_id, type: "function", function: named }] });
    }
  }
  if (response.status === "failed" || response.status === "cancelled") {
    const message = error?.message ?? "The response was cancelled";
    return parsed(text + translator.error(message, error?.code ?? "cancelled"));
  }
  text += chunk({}, response.status === "incomplete" ? "length" : "stop") + translator.last(usage);
  return parsed(text);
}

const parsed = (text: string): SseMessage[] =>
  [...text.matchAll(/^event: (.+)\ndata: (.+)$/gm)].map(([, event = "", data = ""]) => ({
    event,
    data: JSON.parse(data) as unknown,
  }));

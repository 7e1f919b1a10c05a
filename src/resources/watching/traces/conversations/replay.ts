/** Sends the recorded requests of a conversation again, one after the other, and shows both answers. */
import type { Ctx, Principal } from "../../../../context.ts";
import { keepOpen } from "../../../../http/connection.ts";
import { ChatCompletionRequest } from "../../../../lib/chat/chat_completion.ts";
import { CompletionRequest } from "../../../../lib/chat/completion.ts";
import { AppError } from "../../../../lib/errors.ts";
import { inferWhole } from "../../../serving/deployments/chat/infer.ts";
import * as deployments from "../../../serving/deployments/service.ts";
import type { DeploymentRow } from "../../../serving/deployments/table.ts";
import type { ConversationRow, TraceRow } from "../table.ts";
import { tracesOf } from "./conversations.ts";
import type { Replay, ReplayConversation } from "./schema.ts";

const MAX_REQUESTS = 100;
type Caller = Pick<Principal, "workspaceId" | "keyId">;
type Item = Replay["data"][number];

export async function replay(
  ctx: Ctx,
  caller: Caller,
  conversation: ConversationRow,
  { deployment_id: target }: ReplayConversation,
  request: Request,
): Promise<Replay> {
  keepOpen(ctx, request);
  const { signal } = request;
  const recorded = tracesOf(ctx, conversation, MAX_REQUESTS + 1);
  if (recorded.length > MAX_REQUESTS)
    throw new AppError("unsupported_state", `A conversation of more than ${MAX_REQUESTS} requests cannot be replayed`);
  const planned = recorded.map((trace) => {
    mustHaveContent(trace);
    const id = target ?? trace.deploymentId;
    if (id === null)
      throw new AppError("schema", `deployment_id: ${trace.id} came from outside: name the deployment that answers`, {
        param: "/deployment_id",
      });
    return { trace, row: deployments.mustGet(ctx, caller.workspaceId, id) };
  });
  const data: Item[] = [];
  for (const { trace, row } of planned) {
    signal.throwIfAborted();
    data.push(await send(ctx, caller, trace, row, signal));
  }
  return { object: "trace.conversation.replay", conversation_id: conversation.id, data };
}

function mustHaveContent({ id, source, input }: TraceRow) {
  if (input !== null && source !== "embedding") return;
  const why = source === "embedding" ? "is an embedding" : "has no content: set capture to full before the requests";
  throw new AppError("unsupported_state", `The conversation cannot be replayed: trace ${id} ${why}`);
}

async function send(
  ctx: Ctx,
  { keyId }: Caller,
  trace: TraceRow,
  row: DeploymentRow,
  signal: AbortSignal,
): Promise<Item> {
  const base = { trace_id: trace.id, deployment_id: row.id, input: trace.input, recorded_output: trace.output };
  try {
    const { agentId, agentVersion } = trace;
    const call = { ...bodyOf(trace, row.name), keyId, agentId, agentVersion, signal };
    const { traceId, status, text } = await inferWhole(ctx, row, call);
    const body = JSON.parse(text) as Answer;
    const output = body.choices?.map(({ message, text }) => message ?? text) ?? null;
    const error = status < 400 ? null : (body.error?.message ?? "The request failed");
    return { ...base, replay_trace_id: traceId, status, output, error };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { ...base, replay_trace_id: null, status: error.status, output: null, error: error.message };
  }
}

type Answer = { choices?: { message?: unknown; text?: string }[]; error?: { message?: string } };

/** The schema fills in the defaults that a trace leaves out. */
function bodyOf(trace: TraceRow, model: string) {
  const fields = { ...trace.parameters, model, stream: false, stream_options: null, metadata: { replay_of: trace.id } };
  const parsed =
    trace.source === "completion"
      ? CompletionRequest.safeParse({ ...fields, prompt: trace.input })
      : ChatCompletionRequest.safeParse({ ...fields, messages: trace.input });
  if (!parsed.success)
    throw new AppError(
      "unsupported_state",
      `The input of ${trace.id} is no request of the chat format: it cannot be sent`,
    );
  const path = trace.source === "completion" ? ("/completions" as const) : ("/chat/completions" as const);
  return { path, body: { ...parsed.data, model } };
}

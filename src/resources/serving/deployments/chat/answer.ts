/** The answer to an inference request as an answer of HTTP. A client that leaves aborts the request. */
import type { Ctx } from "../../../../context.ts";
import { clientErrorResponse, clientFormatOf } from "../../../../http/answer/client_errors.ts";
import { jsonResponse } from "../../../../http/answer/compressed.ts";
import { keepOpen } from "../../../../http/connection.ts";
import { skipFlush, stateOf } from "../../../../http/request_state.ts";
import type { ChatCompletionRequest } from "../../../../lib/chat/chat_completion.ts";
import { AppError } from "../../../../lib/errors.ts";
import { pathOf } from "../../../../lib/net/request_target.ts";
import { SSE_HEADERS } from "../../../../lib/net/sse.ts";
import { record } from "../../rollouts/record.ts";
import type { DeploymentRow } from "../table.ts";
import { errorOf } from "./error_message.ts";
import { type InferenceRequest, infer, type Whole } from "./infer.ts";
import { recordRefusal } from "./refusals.ts";

export type HttpCall = Omit<InferenceRequest, "signal" | "background" | "onBegin">;

/** `isLast`: the client reads this answer itself, so a long one may be compressed. */
export async function answer(
  ctx: Ctx,
  row: DeploymentRow,
  request: Request,
  call: HttpCall,
  { isLast = false } = {},
): Promise<Response> {
  const { rollout } = stateOf(request).principal ?? {};
  if (!rollout || call.path !== "/chat/completions") return answerOnce(ctx, row, request, call, { isLast });
  const { workspaceId } = row;
  const recorded = { workspaceId, rolloutId: rollout.id, request, body: call.body as ChatCompletionRequest };
  return record(ctx, recorded, (body, recording) =>
    answerOnce(ctx, row, request, { ...call, body: { ...call.body, ...body }, recording }),
  );
}

async function answerOnce(
  ctx: Ctx,
  row: DeploymentRow,
  request: Request,
  call: HttpCall,
  { isLast = false } = {},
): Promise<Response> {
  keepOpen(ctx, request);
  skipFlush(request);
  const onBegin = () => {
    stateOf(request).isRecorded = true;
  };
  const reply = await infer(ctx, row, { ...call, signal: request.signal, onBegin }).catch((error) => {
    if (error instanceof AppError) recordRefusal(ctx, request, { error, row });
    throw error;
  });
  const trace = { "x-trace-id": reply.traceId };
  if ("stream" in reply) return new Response(reply.stream, { headers: { ...SSE_HEADERS, ...trace } });
  const { status, text, retryAfter } = reply;
  const headers = {
    "content-type": "application/json",
    ...trace,
    ...(retryAfter === null ? {} : { "retry-after": retryAfter }),
  };
  if (status >= 400) return refused(request, reply, headers);
  return isLast ? await jsonResponse(request, text, { status, headers }) : new Response(text, { status, headers });
}

/** An error of the worker, in the format of the route. */
function refused(request: Request, { status, text }: Whole, headers: Record<string, string>): Response {
  const error = errorOf(status, text);
  const format = clientFormatOf(pathOf(request));
  if (!error || !format) return new Response(text, { status, headers });
  const answer = clientErrorResponse(format, error);
  for (const [name, value] of Object.entries(headers)) answer.headers.set(name, value);
  return answer;
}

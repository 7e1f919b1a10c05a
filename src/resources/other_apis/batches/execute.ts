/** Runs one request of a batch on the way of its route, in the background: live requests come first. */
import type { Ctx } from "../../../context.ts";
import { type ChatCompletion, ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import { CompletionRequest } from "../../../lib/chat/completion.ts";
import { EmbeddingRequest } from "../../../lib/chat/embedding.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { resolveModel, withAgent } from "../../serving/agents/apply.ts";
import { refuseServers } from "../../serving/agents/tools/run.ts";
import { mustInfer } from "../../serving/deployments/chat/generate.ts";
import type { InferenceRequest } from "../../serving/deployments/chat/infer.ts";
import { mustFind } from "../../serving/deployments/served.ts";
import type { DeploymentRow } from "../../serving/deployments/table.ts";
import { parsedAs } from "../call_model.ts";
import { withFiles } from "../messages/files.ts";
import { MessagesRequest } from "../messages/schema.ts";
import { toChat as messageToChat, toMessage } from "../messages/translate.ts";
import { answerOf } from "../responses/background.ts";
import { ResponsesRequest } from "../responses/schema.ts";
import * as responses from "../responses/service.ts";
import { blankResponse, toChat } from "../responses/translate.ts";
import { type BatchRow, MESSAGES } from "./table.ts";

export type Answer = { requestId: string; body: { usage?: object | null } };
type Run = { batch: BatchRow; signal: AbortSignal };

/** Throws the error that a client would read, or the reason of `signal`. */
export function execute(ctx: Ctx, run: Run, body: object): Promise<Answer> {
  const { endpoint } = run.batch;
  if (endpoint === "/v1/chat/completions") return chat(ctx, run, body);
  if (endpoint === "/v1/responses") return respond(ctx, run, body);
  if (endpoint === MESSAGES) return message(ctx, run, body);
  const plain =
    endpoint === "/v1/completions"
      ? { path: "/completions" as const, body: parsedAs(CompletionRequest, body as never) }
      : { path: "/embeddings" as const, body: parsedAs(EmbeddingRequest, body as never) };
  return send(ctx, run, mustFind(ctx, run.batch.workspaceId, plain.body.model), plain);
}

function chat(ctx: Ctx, run: Run, body: object): Promise<Answer> {
  const { workspaceId } = run.batch;
  const request = parsedAs(ChatCompletionRequest, withAgent(ctx, workspaceId, body) as never);
  const { deployment, ...agent } = resolveModel(ctx, workspaceId, request.model);
  refuseServers(ctx, workspaceId, agent.agentId);
  return send(ctx, run, deployment, { path: "/chat/completions", body: request, ...agent });
}

async function message(ctx: Ctx, run: Run, body: object): Promise<Answer> {
  const request = await withFiles(ctx, run.batch.workspaceId, parsedAs(MessagesRequest, body as never));
  const { requestId, body: answer } = await chat(ctx, run, messageToChat(request));
  return { requestId, body: toMessage(answer as ChatCompletion) };
}

type Call = Pick<InferenceRequest, "path" | "body" | "agentId" | "agentVersion">;

async function send(ctx: Ctx, { batch, signal }: Run, row: DeploymentRow, call: Call): Promise<Answer> {
  if (call.body.stream)
    throw new AppError("schema", "stream: a batch has no streams: leave it out", { param: "/stream" });
  const { id, text } = await mustInfer(ctx, row, { ...call, keyId: batch.keyId, background: true, signal });
  return { requestId: id, body: JSON.parse(text) as Answer["body"] };
}

async function respond(ctx: Ctx, { batch, signal }: Run, body: object): Promise<Answer> {
  const { workspaceId, keyId } = batch;
  const request = parsedAs(ResponsesRequest, body as never);
  const field = request.stream ? "stream" : request.background ? "background" : undefined;
  if (field) throw new AppError("schema", `${field}: cannot be used in a batch: leave it out`, { param: `/${field}` });
  const input = responses.itemsOf(ctx, workspaceId, request.input);
  const previous = request.previous_response_id;
  const items = previous ? [...responses.historyOf(ctx, workspaceId, previous), ...input] : input;
  const task = parsedAs(ChatCompletionRequest, withAgent(ctx, workspaceId, toChat(request, items)) as never);
  const model = task.model ?? resolveModel(ctx, workspaceId, undefined).deployment.name;
  const now = ctx.clock.now();
  const blank = blankResponse({ id: newId("resp", now), createdAt: now, model, request }, "in_progress");
  const response = await answerOf(ctx, { workspaceId, keyId, task, response: blank }, signal);
  if (request.store) responses.store(ctx, { workspaceId, keyId, input, task: null, response });
  return { requestId: newId("req", now), body: response };
}

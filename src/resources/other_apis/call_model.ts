/** Sends a request of another client's format on the way of the chat routes: one flight, one record, one relay. */
import type { z } from "zod";
import type { Ctx, Principal } from "../../context.ts";
import { deepest, type Issue, schemaError } from "../../http/answer/issues.ts";
import { ChatCompletionRequest } from "../../lib/chat/chat_completion.ts";
import { resolveModel, withAgent } from "../serving/agents/apply.ts";
import { withServers } from "../serving/agents/tools/run.ts";
import { answer, type HttpCall } from "../serving/deployments/chat/answer.ts";
import { withCheckpoint } from "../serving/deployments/checkpoint.ts";
import { mustFind } from "../serving/deployments/served.ts";

export type Caller = { request: Request; principal: Principal };

/** The fields of a translated request, checked. Throws the error of the first bad field. */
export function parsedAs<S extends z.ZodType>(schema: S, fields: z.input<S>): z.output<S> {
  const result = schema.safeParse(fields);
  if (result.success) return result.data;
  const [issue] = result.error.issues as Issue[];
  throw schemaError(issue && deepest(issue));
}

export async function callModel(
  ctx: Ctx,
  { request, principal }: Caller,
  path: HttpCall["path"],
  sent: HttpCall["body"],
) {
  const body = await withCheckpoint(ctx, principal.workspaceId, sent);
  const row = mustFind(ctx, principal.workspaceId, body.model);
  return { row, response: await answer(ctx, row, request, { path, body, keyId: principal.keyId }) };
}

type ChatFields = z.input<typeof ChatCompletionRequest>;

/** A chat request, checked. Its model may be an agent. */
export const chatBody = (ctx: Ctx, { principal }: Caller, fields: ChatFields): ChatCompletionRequest =>
  parsedAs(ChatCompletionRequest, withAgent(ctx, principal.workspaceId, fields) as ChatFields);

/** `conversationId`: of the trace, if the client names none. */
export async function chat(
  ctx: Ctx,
  { request, principal }: Caller,
  sent: ChatCompletionRequest,
  conversationId: string | null = null,
) {
  const body = await withCheckpoint(ctx, principal.workspaceId, sent);
  const { deployment, ...agent } = resolveModel(ctx, principal.workspaceId, body.model);
  const by = { keyId: principal.keyId, conversationId: request.headers.get("x-conversation-id") ?? conversationId };
  return withServers(ctx, { request, principal }, { agentId: agent.agentId, body }, (turn, onTrace) =>
    answer(ctx, deployment, request, { path: "/chat/completions", body: turn, onTrace, ...by, ...agent }),
  );
}

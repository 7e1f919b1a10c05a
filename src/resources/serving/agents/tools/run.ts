/**
 * A chat whose agent has MCP servers. This server calls the tools, and asks the model again with their results, until the
 * model answers or the turns are used. A call that needs approval, or that the client must make, goes to the client: it
 * approves a call of a server by sending it back without a result.
 */
import type { Ctx, Principal } from "../../../../context.ts";
import { keepOpen } from "../../../../http/connection.ts";
import type { ChatCompletion, ChatCompletionRequest } from "../../../../lib/chat/chat_completion.ts";
import { toolName } from "../../../../lib/chat/tools.ts";
import { AppError } from "../../../../lib/errors.ts";
import { find } from "../service.ts";
import { Conversation, type Send } from "./conversation.ts";
import type { McpServer } from "./schema.ts";
import { streamTurns } from "./stream.ts";
import { openToolbox } from "./toolbox.ts";

type Caller = { request: Request; principal: Principal };
type Chat = { agentId: string | null; body: ChatCompletionRequest };

const MAX_TURNS = 10;

/** The servers of the agent; none for a chat with a deployment. */
export function serversOf(ctx: Ctx, workspaceId: string, agentId: string | null) {
  const row = agentId === null ? undefined : find(ctx, workspaceId, agentId);
  const servers = (row?.tools ?? []).filter((tool) => tool.type === "mcp");
  return { servers, maxTurns: row?.maxTurns ?? MAX_TURNS };
}

/** For requests that are answered without a client, which could not approve a call. */
export function refuseServers(ctx: Ctx, workspaceId: string, agentId: string | null) {
  if (serversOf(ctx, workspaceId, agentId).servers.length > 0)
    throw new AppError(
      "unsupported_state",
      "model: this agent has MCP servers, which work in a chat with a client alone, not in batches and in the background",
      { param: "/model" },
    );
}

export async function withServers(ctx: Ctx, caller: Caller, { agentId, body }: Chat, send: Send): Promise<Response> {
  const { servers, maxTurns } = serversOf(ctx, caller.principal.workspaceId, agentId);
  if (servers.length === 0) return await send(body);
  mustBeUsable(body);
  keepOpen(ctx, caller.request);
  const left = new AbortController();
  const signal = AbortSignal.any([caller.request.signal, ctx.closing, left.signal]);
  const taken = body.tools.map(toolName);
  const toolbox = await openToolbox(ctx, servers as McpServer[], { principal: caller.principal, signal, taken });
  const conversation = new Conversation(ctx, { body, toolbox, maxTurns, send });
  let isStreaming = false;
  try {
    await conversation.answerApproved();
    const first = await conversation.ask();
    if (!body.stream || first.status >= 400 || !first.body) return await wholeAnswer(conversation, first);
    isStreaming = true;
    const options = { includesUsage: body.stream_options?.include_usage === true };
    const end = () => {
      left.abort();
      return toolbox.close();
    };
    return streamTurns(ctx, conversation, first, { ...options, end });
  } finally {
    if (!isStreaming) await toolbox.close();
  }
}

function mustBeUsable({ n, functions, continue_final_message: goesOn }: ChatCompletionRequest) {
  const refuse = (field: string, why: string) => {
    throw new AppError("schema", `${field}: ${why}`, { param: `/${field}` });
  };
  if (n > 1) refuse("n", "an agent with MCP servers gives one answer. Remove n");
  if (functions?.length) refuse("functions", "an agent with MCP servers takes tools. Use tools instead");
  if (goesOn) refuse("continue_final_message", "an agent with MCP servers cannot continue a message. Remove it");
}

async function wholeAnswer(conversation: Conversation, first: Response): Promise<Response> {
  for (let response = first; ; response = await conversation.ask()) {
    if (response.status >= 400) return response;
    const completion = (await response.json()) as ChatCompletion;
    if (await conversation.answerCalls(completion)) continue;
    const headers = new Headers(response.headers);
    headers.delete("content-length");
    return new Response(JSON.stringify(conversation.final(completion)), { headers });
  }
}

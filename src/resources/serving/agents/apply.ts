/** An agent as the `model` of a chat request: its fields are the defaults of the request. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { isId } from "../../../lib/ids.ts";
import { isServedName, mustFind as mustFindDeployment } from "../deployments/served.ts";
import type { DeploymentRow } from "../deployments/table.ts";
import * as agents from "./service.ts";
import type { AgentRow } from "./table.ts";

type Fields = Record<string, unknown>;

/** The agent that `model` names. An active deployment of the same name comes first. */
function agentFor(ctx: Ctx, workspaceId: string, model: unknown): AgentRow | undefined {
  if (typeof model !== "string" || isId(model, "dep")) return undefined;
  const agent = agents.find(ctx, workspaceId, model);
  return agent && !isServedName(ctx, workspaceId, model) ? agent : undefined;
}

/**
 * The body of a chat request with the fields of its agent, before it is checked. The `model` becomes name@version, so
 * that the rest of the request and its answer have one version. A body without an agent stays as it is.
 */
export function withAgent(ctx: Ctx, workspaceId: string, body: unknown): unknown {
  if (typeof body !== "object" || body === null) return body;
  const fields = body as Fields;
  const agent = agentFor(ctx, workspaceId, fields["model"]);
  return agent ? merge(agent, fields) : body;
}

type Merged = Pick<AgentRow, "name" | "version" | "systemPrompt" | "tools" | "sampling">;

/** Pure. A field of the request overrides that of the agent; null counts as absent. */
export function merge({ name, version, systemPrompt, tools, sampling }: Merged, body: Fields): Fields {
  const fields = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
  const functions = tools.filter(({ type }) => type === "function"); // servers are asked for their tools in the chat
  const defaults: Fields = { ...sampling, ...(functions.length > 0 ? { tools: functions } : {}) };
  // max_tokens is the older name: with the agent's max_completion_tokens beside it, it would have no effect.
  if (fields["max_tokens"] !== undefined) delete defaults["max_completion_tokens"];
  // The choice of the agent may name one of its own tools.
  if (fields["tools"] !== undefined) delete defaults["tool_choice"];
  const merged: Fields = { ...defaults, ...fields, model: `${name}@${version}` };
  if (systemPrompt !== null && Array.isArray(fields["messages"]))
    merged["messages"] = withPrompt(systemPrompt, fields["messages"]);
  return merged;
}

type Message = { role?: unknown; content?: unknown };

/** Many chat templates take one system message, and only at the start. So the prompt joins one that is there. */
function withPrompt(prompt: string, messages: readonly unknown[]): unknown[] {
  const [first, ...rest] = messages as (Message | null)[];
  const isSystem = first?.role === "system" || first?.role === "developer";
  if (isSystem && typeof first.content === "string")
    return [{ ...first, content: `${prompt}\n\n${first.content}` }, ...rest];
  if (isSystem && Array.isArray(first.content))
    return [{ ...first, content: [{ type: "text", text: `${prompt}\n\n` }, ...first.content] }, ...rest];
  return [{ role: "system", content: prompt }, ...messages];
}

type Resolved = { deployment: DeploymentRow; agentId: string | null; agentVersion: number | null };

/** The deployment for the `model` of a chat request, and the agent if `model` names one. */
export function resolveModel(ctx: Ctx, workspaceId: string, model: string | undefined): Resolved {
  const agent = agentFor(ctx, workspaceId, model);
  if (!agent) return { deployment: mustFindDeployment(ctx, workspaceId, model), agentId: null, agentVersion: null };
  try {
    const deployment = mustFindDeployment(ctx, workspaceId, agent.deployment);
    return { deployment, agentId: agent.id, agentVersion: agent.version };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const message = `model: the agent ${agent.name} uses the deployment ${agent.deployment}. ${error.message.replace(/^model: /, "")}`;
    throw new AppError(error.code, message, { param: "/model", cause: error });
  }
}

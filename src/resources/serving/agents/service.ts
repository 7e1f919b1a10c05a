/** Agents: saved configurations of chat requests. Versions never change; a version is named by id or name@3. */

import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import { AppError } from "../../../lib/errors.ts";
import { issueText } from "../../../lib/text/issue.ts";
import { write } from "../../../platform/db/db.ts";
import { preparedInsert } from "../../../platform/db/row.ts";
import { versionsOf } from "../../../platform/db/versions.ts";
import { judgeUrl, networkPolicy } from "../../../platform/network/address.ts";
import { isServedName, mustFind as mustFindDeployment } from "../deployments/served.ts";
import { type CreateAgent, present, report } from "./schema.ts";
import { type AgentRow, agents } from "./table.ts";

const insert = preparedInsert(agents);

const versions = versionsOf(agents, {
  prefix: "agt",
  missing: (ref) => `No agent ${ref}: use an id, a name or name@3. GET /v1/agents lists them`,
  erase(tx, row, now) {
    const set = { deletedAt: now, description: null, systemPrompt: null, tools: [], sampling: {}, metadata: {} };
    tx.update(agents).set(set).where(eq(agents.id, row.id)).run();
    emit(tx, "agent.deleted", { workspaceId: row.workspaceId, now }, report(row));
  },
});
export const { find, mustFind, within, remove, removeAll } = versions;

type ListQuery = PageQuery & { name?: string | undefined; latest: boolean };

export const list = (ctx: Ctx, workspaceId: string, query: ListQuery) =>
  page(ctx.db, agents, within(workspaceId, query), query, present);

export function create(ctx: Ctx, workspaceId: string, input: CreateAgent): AgentRow {
  const now = ctx.clock.now();
  mustBeOutside(ctx, input);
  mustBeDeployed(ctx, workspaceId, input.deployment);
  mustBeUsable(input);
  const { name } = input;
  return write(ctx.db, (tx) => {
    if (isServedName(ctx, workspaceId, name))
      throw new AppError("name_taken", `A deployment named ${JSON.stringify(name)} is active: choose another name`, {
        param: "/name",
      });
    const row = insert(tx, {
      ...versions.next(tx, { workspaceId, name }, now),
      description: input.description ?? null,
      deployment: input.deployment,
      systemPrompt: input.system_prompt ?? null,
      tools: input.tools ?? [],
      sampling: input.sampling ?? {},
      maxTurns: input.max_turns ?? null,
      metadata: input.metadata ?? {},
    });
    emit(tx, "agent.created", { workspaceId, now }, report(row));
    return row;
  });
}

/** Refuses addresses of servers that the guard would refuse at each connection. A name is resolved at the connection. */
function mustBeOutside({ config }: Ctx, { tools = [] }: CreateAgent) {
  const policy = networkPolicy(config.network);
  for (const [i, tool] of tools.entries()) {
    if (tool.type !== "mcp" || tool.server_url === undefined) continue;
    const verdict = judgeUrl(tool.server_url, policy, { allowHttp: true });
    if (verdict.allowed) continue;
    throw new AppError(
      "url_not_allowed",
      `tools.${i}.server_url: ${verdict.reason}. Use a public address, or ask the operator to allow this one with network.allow`,
      { param: `/tools/${i}/server_url` },
    );
  }
}

function mustBeDeployed(ctx: Ctx, workspaceId: string, deployment: string) {
  try {
    mustFindDeployment(ctx, workspaceId, deployment);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const message = error.message.replace(/^model:/, "deployment:");
    throw new AppError(error.code, message, { param: "/deployment", cause: error });
  }
}

/** A chat request with these fields must pass, so that a later request with the agent does. */
function mustBeUsable({ tools, sampling }: CreateAgent) {
  const functions = tools?.filter(({ type }) => type === "function");
  const request = { ...sampling, tools: functions, messages: [{ role: "user", content: "" }] };
  const issue = ChatCompletionRequest.safeParse(request).error?.issues[0];
  if (!issue) return;
  const [field = "", ...rest] = issue.path.map(String);
  const path = field === "tools" ? [field, ...rest] : ["sampling", field, ...rest];
  throw new AppError("schema", `${path.join(".")}: ${issueText(issue)}`, { param: `/${path.join("/")}` });
}

/** Agents: saved configurations of chat requests. Versions never change; a version is named by id or name@3. */
import { and, desc, eq, isNull, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import { AppError } from "../../../lib/errors.ts";
import { isId, newId } from "../../../lib/ids.ts";
import { prepared, type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert } from "../../../platform/db/row.ts";
import { isServedName, mustFind as mustFindDeployment } from "../deployments/served.ts";
import { type CreateAgent, present, report } from "./schema.ts";
import { type AgentRow, agents } from "./table.ts";

const insert = preparedInsert(agents);
const there = isNull(agents.deletedAt);

const VERSION = /^(.+)@(\d{1,9})$/;

/** Finds by id, by name@3, or by name: the newest version. */
export function find(ctx: Pick<Ctx, "db">, workspaceId: string, ref: string): AgentRow | undefined {
  const [, name, version] = VERSION.exec(ref) ?? [];
  if (isId(ref, "agt")) return first(ctx, workspaceId, eq(agents.id, ref));
  if (name !== undefined)
    return first(ctx, workspaceId, and(eq(agents.name, name), eq(agents.version, Number(version))));
  const newest = newestNamed(ctx.db).get({ workspaceId, name: ref });
  return newest && first(ctx, workspaceId, eq(agents.id, newest.id));
}

/** Every chat request looks here, so it is prepared. */
const newestNamed = prepared((db) =>
  db
    .select({ id: agents.id })
    .from(agents)
    .where(and(eq(agents.workspaceId, sql.placeholder("workspaceId")), eq(agents.name, sql.placeholder("name")), there))
    .orderBy(desc(agents.version))
    .limit(1)
    .prepare(),
);

const first = ({ db }: Pick<Ctx, "db">, workspaceId: string, where: SQL | undefined) =>
  db
    .select()
    .from(agents)
    .where(and(eq(agents.workspaceId, workspaceId), there, where))
    .get();

export function mustFind(ctx: Pick<Ctx, "db">, workspaceId: string, ref: string): AgentRow {
  const row = find(ctx, workspaceId, ref);
  if (row) return row;
  const message = `No agent ${ref.slice(0, 80)}: use an id, a name or name@3. GET /v1/agents lists them`;
  throw new AppError("resource_not_found", message, { param: "id" });
}

type ListQuery = PageQuery & { name?: string | undefined; latest: boolean };

export const isNewest = sql`NOT EXISTS (SELECT 1 FROM agents newer WHERE newer.workspace_id = ${agents.workspaceId}
  AND newer.name = ${agents.name} AND newer.version > ${agents.version} AND newer.deleted_at IS NULL)`;

export function list(ctx: Ctx, workspaceId: string, { name, latest, ...query }: ListQuery) {
  const within = and(
    eq(agents.workspaceId, workspaceId),
    there,
    name === undefined ? undefined : eq(agents.name, name),
    latest ? isNewest : undefined,
  );
  return page(ctx.db, agents, within, query, present);
}

/** The version is counted inside the commit, so concurrent requests leave no gap. */
export function create(ctx: Ctx, workspaceId: string, input: CreateAgent): AgentRow {
  const now = ctx.clock.now();
  mustBeDeployed(ctx, workspaceId, input.deployment);
  mustBeUsable(input);
  const { name } = input;
  return write(ctx.db, (tx) => {
    if (isServedName(ctx, workspaceId, name))
      throw new AppError("name_taken", `A deployment named ${JSON.stringify(name)} is active: choose another name`, {
        param: "/name",
      });
    const last = lastVersion(tx, workspaceId, name);
    const row = {
      id: newId("agt", now),
      workspaceId,
      name,
      version: last + 1,
      description: input.description ?? null,
      deployment: input.deployment,
      systemPrompt: input.system_prompt ?? null,
      tools: input.tools ?? [],
      sampling: input.sampling ?? {},
      metadata: input.metadata ?? {},
      createdAt: now,
      deletedAt: null,
    };
    insert(tx, row);
    emit(tx, "agent.created", { workspaceId, now }, report(row));
    return row;
  });
}

/** Deleted versions count: a number never gets another meaning. */
const lastVersion = (tx: Tx, workspaceId: string, name: string): number =>
  tx
    .select({ last: sql<number>`coalesce(max(${agents.version}), 0)` })
    .from(agents)
    .where(and(eq(agents.workspaceId, workspaceId), eq(agents.name, name)))
    .get()?.last ?? 0;

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
  const request = { ...sampling, tools, messages: [{ role: "user", content: "" }] };
  const issue = ChatCompletionRequest.safeParse(request).error?.issues[0];
  if (!issue) return;
  const [field = "", ...rest] = issue.path.map(String);
  const path = field === "tools" ? [field, ...rest] : ["sampling", field, ...rest];
  throw new AppError("schema", `${path.join(".")}: ${issue.message}`, { param: `/${path.join("/")}` });
}

/** Deletes one version, by id or name@3. */
export function remove(ctx: Ctx, workspaceId: string, ref: string): AgentRow {
  return write(ctx.db, (tx) => {
    const row = mustFind(ctx, workspaceId, ref);
    if (ref === row.name)
      throw new AppError(
        "invalid_request",
        `${ref} is a name, which may have several versions: delete one version by its id (${row.id}) or as ${ref}@${row.version}`,
        { param: "id" },
      );
    erase(tx, row, ctx.clock.now());
    return row;
  });
}

function erase(tx: Tx, row: AgentRow, now: number) {
  const set = { deletedAt: now, description: null, systemPrompt: null, tools: [], sampling: {}, metadata: {} };
  tx.update(agents).set(set).where(eq(agents.id, row.id)).run();
  emit(tx, "agent.deleted", { workspaceId: row.workspaceId, now }, report(row));
}

/** For a workspace that is deleted. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const all = tx
      .select()
      .from(agents)
      .where(and(eq(agents.workspaceId, workspaceId), there))
      .all();
    for (const row of all) erase(tx, row, now);
  });
}

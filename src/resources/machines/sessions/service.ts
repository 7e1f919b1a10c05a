/** Sessions: sandboxes with a directory of files and isolated commands. */
import { and, count, eq, inArray, isNotNull, lt, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { transition } from "../../../events/lifecycle.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import * as volumes from "../../data/volumes/service.ts";
import { machine, report } from "./machine.ts";
import { type CreateSession, present } from "./schema.ts";
import { type Mount, type SessionRow, type STATUSES, sessions } from "./table.ts";
import { collision } from "./workspace/mount_paths.ts";

const ACTIVE = ["creating", "ready", "stopping"] as const;

const insert = preparedInsert(sessions);
const byId = preparedRow(sessions, eq(sessions.id, sql.placeholder("id")));

export const find = (ctx: Pick<Ctx, "db">, id: string): SessionRow | undefined => byId(ctx.db, { id });

export function mustGet(ctx: Ctx, workspaceId: string, id: string): SessionRow {
  const row = find(ctx, id);
  if (row?.workspaceId !== workspaceId)
    throw new AppError("resource_not_found", `No session ${id.slice(0, 80)}`, { param: "id" });
  return row;
}

export function mustBeReady(ctx: Ctx, workspaceId: string, id: string): SessionRow {
  const row = mustGet(ctx, workspaceId, id);
  if (row.status !== "ready") throw notReady(row);
  return row;
}

export const notReady = ({ id, status }: SessionRow) =>
  new AppError("session_not_ready", `Session ${id} is ${status}: it must be ready`, { param: "id" });

export const shown = (ctx: Ctx, row: SessionRow) =>
  present(row, { env: Object.keys(envOf(ctx, row)), usedAt: ctx.state.sessions.lastUse(row) });

export const list = (
  ctx: Ctx,
  workspaceId: string,
  query: PageQuery & { status?: (typeof STATUSES)[number] | undefined },
) =>
  page(
    ctx.db,
    sessions,
    and(
      eq(sessions.workspaceId, workspaceId),
      query.status === undefined ? undefined : eq(sessions.status, query.status),
    ),
    query,
    (row) => shown(ctx, row),
  );

const aad = (id: string) => `session:${id}`;

export const envOf = (ctx: Ctx, { id, env }: SessionRow): Record<string, string> =>
  env === "" ? {} : JSON.parse(new TextDecoder().decode(ctx.secrets.open(env, aad(id))));

/** Inserts the row. The directory is made after the row is on the disk, so that it always has an owner. */
export function create(ctx: Ctx, tx: Tx, workspaceId: string, input: CreateSession): SessionRow {
  const { max_per_workspace: most, lifetime_seconds: life, idle_seconds: idle } = ctx.config.sessions;
  const now = ctx.clock.now();
  requireRoom(tx, workspaceId, most);
  if (input.network && !ctx.config.sessions.allow_network)
    throw invalid("/network", "network access is not allowed: the operator can set sessions.allow_network = true");
  const timeoutSeconds = within("/timeout_seconds", input.timeout_seconds ?? life, life);
  const idleSeconds = within("/idle_timeout_seconds", input.idle_timeout_seconds ?? Math.min(idle, life), life);
  const id = newId("ses", now);
  const row = insert(tx, {
    id,
    workspaceId,
    name: input.name,
    status: machine.initial,
    env: Object.keys(input.env).length === 0 ? "" : ctx.secrets.seal(JSON.stringify(input.env), aad(id)),
    volumes: mountsOf(ctx, workspaceId, input),
    network: input.network,
    timeoutSeconds,
    idleSeconds,
    error: null,
    execCount: 0,
    expiresAt: now + timeoutSeconds * 1000,
    usedAt: now,
    readyAt: null,
    endedAt: null,
    removedAt: null,
    metadata: input.metadata,
    createdAt: now,
    updatedAt: now,
  });
  emit(tx, "session.created", { workspaceId, now }, report(row));
  return row;
}

const invalid = (param: string, why: string) => new AppError("schema", `${param.slice(1)}: ${why}`, { param });

function within(param: string, seconds: number, most: number): number {
  if (seconds <= most) return seconds;
  throw invalid(param, `must be at most ${most} (sessions.lifetime_seconds)`);
}

function requireRoom(tx: Tx, workspaceId: string, most: number) {
  const active = and(eq(sessions.workspaceId, workspaceId), inArray(sessions.status, [...ACTIVE]));
  const [counted] = tx.select({ number: count() }).from(sessions).where(active).all();
  if ((counted?.number ?? 0) >= most)
    throw new AppError(
      "quota_exceeded",
      `This workspace has ${most} sessions, which is the limit: stop one, or ask the operator to raise sessions.max_per_workspace`,
    );
}

function mountsOf(ctx: Ctx, workspaceId: string, input: CreateSession): Mount[] {
  const clash = collision(input.volumes.map(({ mount_path }) => mount_path));
  if (clash !== undefined)
    throw invalid(`/volumes/${clash}/mount_path`, "must not be equal to, or below, the mount_path of another volume");
  return input.volumes.map(({ name, mount_path, read_only }, i) => {
    const volume = volumes.find(ctx, workspaceId, name);
    if (!volume) throw new AppError("resource_not_found", `No volume ${name}`, { param: `/volumes/${i}/name` });
    return { volumeId: volume.id, name: volume.name, mountPath: mount_path, readOnly: read_only };
  });
}

/** Kills the commands and resolves when they have ended. The loop removes the files. Ended sessions stay as they are. */
export async function stop(ctx: Ctx, workspaceId: string, id: string): Promise<SessionRow> {
  mustGet(ctx, workspaceId, id);
  begin(ctx, id, "stop");
  const row = mustGet(ctx, workspaceId, id);
  if (row.status !== "stopping") return row;
  await ctx.state.sessions.of(row).untilIdle();
  return finish(ctx, id) ?? mustGet(ctx, workspaceId, id);
}

/** From here on no command starts, and running commands are killed. */
export function begin(ctx: Ctx, id: string, action: "stop" | "expire"): SessionRow | undefined {
  const now = ctx.clock.now();
  const patch = action === "expire" ? { endedAt: now, env: "" } : {};
  const row = write(ctx.db, (tx) => transition(tx, machine, action, { id, now }, patch));
  if (row) ctx.state.sessions.of(row).ending.abort();
  ctx.wake("sessions.reconcile");
  return row;
}

export function finish(ctx: Ctx, id: string): SessionRow | undefined {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => transition(tx, machine, "finish", { id, now }, { endedAt: now, env: "" }));
}

/** For a workspace that is deleted. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const active = and(eq(sessions.workspaceId, workspaceId), inArray(sessions.status, [...ACTIVE]));
  for (const { id } of ctx.db.select({ id: sessions.id }).from(sessions).where(active).all()) begin(ctx, id, "stop");
}

/** Removes the rows of sessions that ended before this time. Their files are gone already. */
export const prune = (ctx: Pick<Ctx, "db">, before: number): Promise<number> =>
  gradually(ctx.db, (tx, rows) => {
    const over = and(isNotNull(sessions.removedAt), lt(sessions.endedAt, before));
    const old = tx.select({ id: sessions.id }).from(sessions).where(over).limit(rows);
    return tx.delete(sessions).where(inArray(sessions.id, old)).returning({ id: sessions.id }).all().length;
  });

export const countExec = (ctx: Ctx, id: string) =>
  write(ctx.db, (tx) =>
    tx
      .update(sessions)
      .set({ execCount: sql`${sessions.execCount} + 1`, usedAt: ctx.clock.now() })
      .where(eq(sessions.id, id))
      .run(),
  );

/** Rollouts: each is an agent at work, whose model calls become turns with exact tokens. */
import { and, eq, lte, type SQL, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { transition } from "../../../events/lifecycle.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { microsOf } from "../../../lib/money.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import { type Db, prepared, type Tx, write } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { authenticateById } from "../../access/api_keys/authenticate.ts";
import { hashKey, mintKey } from "../../access/api_keys/key_text.ts";
import { mustHaveRoom } from "../../data/storage_usage/service.ts";
import { resolveModel } from "../agents/apply.ts";
import { machine } from "./machine.ts";
import { type CreateRollout, type FinishRollout, present, report } from "./schema.ts";
import { type Limit, type RolloutRow, rollouts, rolloutTurns } from "./table.ts";

const insert = preparedInsert(rollouts);
const byId = preparedRow(
  rollouts,
  and(eq(rollouts.id, sql.placeholder("id")), eq(rollouts.workspaceId, sql.placeholder("workspaceId"))),
);
const byKey = preparedRow(rollouts, eq(rollouts.keyHash, sql.placeholder("hash")));
const EXPIRED_AT_ONCE = 200;

export function mustGet({ db }: { db: Db | Tx }, workspaceId: string, id: string, param = "id"): RolloutRow {
  const row = byId(db, { id, workspaceId });
  if (!row) throw new AppError("resource_not_found", `No rollout ${id.slice(0, 80)}`, { param });
  return row;
}

/** The caller with the key of a rollout. The key that opened it pays, and must still be valid. */
export function authenticate(ctx: Pick<Ctx, "db" | "clock">, hash: string): Principal | undefined {
  const row = byKey(ctx.db, { hash });
  if (!row) return undefined;
  const { workspaceId, keyId } = authenticateById(ctx, row.keyId);
  return { workspaceId, keyId, scopes: ["inference"], rollout: { id: row.id, model: row.model } };
}

type ListQuery = PageQuery & { status?: RolloutRow["status"] | undefined; model?: string | undefined };

export const list = (ctx: Ctx, workspaceId: string, { status, model, ...query }: ListQuery, root: string) =>
  page(
    ctx.db,
    rollouts,
    and(
      eq(rollouts.workspaceId, workspaceId),
      status === undefined ? undefined : eq(rollouts.status, status),
      model === undefined ? undefined : eq(rollouts.model, model),
    ),
    query,
    (row) => present(row, root),
  );

export function create(ctx: Ctx, { workspaceId, keyId }: Principal, input: CreateRollout) {
  const now = ctx.clock.now();
  const { max_tokens: maxTokens = null, max_cost_usd: maxCost = null, replay_of: replayOf } = input;
  const source = replayOf === undefined ? undefined : mustGet(ctx, workspaceId, replayOf, "/replay_of");
  const { deployment, agentId } = source
    ? { deployment: { name: source.model }, agentId: null }
    : resolveModel(ctx, workspaceId, input.model);
  const key = mintKey();
  const row = write(ctx.db, (tx) => {
    const made = insert(tx, {
      id: newId("rol", now),
      workspaceId,
      keyId,
      keyHash: hashKey(key),
      status: machine.initial,
      endedBy: null,
      model: input.model !== undefined && (agentId || input.model.includes(":")) ? input.model : deployment.name,
      replayOf: replayOf ?? null,
      sampling: input.sampling ?? {},
      maxTurns: input.max_turns,
      maxTokens,
      maxCostMicros: maxCost === null ? null : microsOf(maxCost),
      turnCount: 0,
      branchCount: 0,
      promptTokens: 0,
      completionTokens: 0,
      costMicros: 0,
      reward: null,
      metrics: null,
      metadata: input.metadata ?? {},
      expiresAt: now + input.max_seconds * SECOND_MS,
      finishedAt: null,
      createdAt: now,
      updatedAt: now,
    });
    mustHaveRoom({ db: tx, config: ctx.config }, { workspaceId, kind: "chats" }, { bytes: 0 });
    emit(tx, "rollout.created", { workspaceId, now }, report(made));
    return made;
  });
  return { row, key };
}

/** The same reward again changes nothing. Another one is refused: a trainer may have used the first. */
export function finish(ctx: Ctx, workspaceId: string, id: string, { reward, metrics = {} }: FinishRollout): RolloutRow {
  return write(ctx.db, (tx) => {
    const row = mustGet({ db: tx }, workspaceId, id);
    const now = ctx.clock.now();
    const finished = transition(tx, machine, "finish", { id, now }, { reward, metrics, finishedAt: now });
    if (finished) {
      mustHaveRoom({ db: tx, config: ctx.config }, { workspaceId, kind: "chats" }, { bytes: 0 });
      return finished;
    }
    if (row.reward === reward && isSame(row.metrics ?? {}, metrics)) return row;
    throw new AppError("unsupported_state", `Rollout ${id} has the reward ${row.reward}: a reward cannot be changed`);
  });
}

const isSame = (a: Record<string, number>, b: Record<string, number>) =>
  Object.keys(a).length === Object.keys(b).length && Object.entries(a).every(([name, value]) => b[name] === value);

/** Ends a rollout that has reached a limit. It still takes its reward. */
export function end(ctx: Ctx, id: string, endedBy: Limit) {
  write(ctx.db, (tx) => void transition(tx, machine, "end", { id, now: ctx.clock.now() }, { endedBy }));
}

const dueRollouts = prepared((db) =>
  db
    .select({ id: rollouts.id })
    .from(rollouts)
    .where(and(sql`${rollouts.status} = 'open'`, lte(rollouts.expiresAt, sql.placeholder("now"))))
    .limit(EXPIRED_AT_ONCE)
    .prepare(),
);

/** Ends the rollouts whose time is over. */
export function expire(ctx: Ctx) {
  const now = ctx.clock.now();
  for (const { id } of dueRollouts(ctx.db).all({ now })) end(ctx, id, "seconds");
}

export async function remove(ctx: Ctx, workspaceId: string, id: string): Promise<RolloutRow> {
  const row = mustGet(ctx, workspaceId, id);
  await removeTurns(ctx, eq(rolloutTurns.rolloutId, id));
  write(ctx.db, (tx) => {
    tx.delete(rolloutTurns).where(eq(rolloutTurns.rolloutId, id)).run(); // a call may have ended meanwhile
    tx.delete(rollouts).where(eq(rollouts.id, id)).run();
    emit(tx, "rollout.deleted", { workspaceId, now: ctx.clock.now() }, report(row));
  });
  return row;
}

const removeTurns = (ctx: Ctx, where: SQL) =>
  gradually(ctx.db, (tx, rows) => {
    const some = tx.select({ at: sql`rowid` }).from(rolloutTurns).where(where).limit(rows);
    return tx.delete(rolloutTurns).where(sql`rowid IN ${some}`).returning({ number: rolloutTurns.number }).all().length;
  });

/** For a workspace that is deleted. */
export async function removeAll(ctx: Ctx, workspaceId: string) {
  await removeTurns(ctx, eq(rolloutTurns.workspaceId, workspaceId));
  await gradually(ctx.db, (tx, rows) => {
    const some = tx.select({ id: rollouts.id }).from(rollouts).where(eq(rollouts.workspaceId, workspaceId)).limit(rows);
    tx.delete(rolloutTurns).where(sql`${rolloutTurns.rolloutId} IN ${some}`).run();
    return tx.delete(rollouts).where(sql`${rollouts.id} IN ${some}`).returning({ id: rollouts.id }).all().length;
  });
}

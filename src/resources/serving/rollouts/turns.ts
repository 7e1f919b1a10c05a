/** The turns of a rollout as rows. */
import { and, asc, eq, gt, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import type { ChatCompletion } from "../../../lib/chat/chat_completion.ts";
import { usdOf } from "../../../lib/money.ts";
import { isoTime } from "../../../lib/time.ts";
import { type Db, type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { mustHaveRoom } from "../../data/storage_usage/service.ts";
import type { RolloutTurn } from "./schema.ts";
import { type RolloutRow, rollouts, type TurnRow, rolloutTurns as table } from "./table.ts";

const insert = preparedInsert(table);
const byNumber = preparedRow(
  table,
  and(eq(table.rolloutId, sql.placeholder("rolloutId")), eq(table.number, sql.placeholder("number"))),
);
const byRequest = preparedRow(
  table,
  and(
    eq(table.rolloutId, sql.placeholder("rolloutId")),
    eq(table.requestHash, sql.placeholder("hash")),
    eq(table.status, "done"),
  ),
  sql`${table.number} DESC`,
);

export const turnAt = (db: Db | Tx, rolloutId: string, number: number): TurnRow | undefined =>
  byNumber(db, { rolloutId, number });

/** The latest turn that answered this request. */
export const answerTo = (db: Db | Tx, rolloutId: string, hash: string): TurnRow | undefined =>
  byRequest(db, { rolloutId, hash });

/** The turns that a request may go on from. */
export const statesOf = (db: Db | Tx, rolloutId: string) =>
  db
    .select({ number: table.number, stateHash: table.stateHash })
    .from(table)
    .where(and(eq(table.rolloutId, rolloutId), eq(table.status, "done")))
    .orderBy(asc(table.number))
    .all();

export const completionOf = ({ completion }: Pick<TurnRow, "completion">) =>
  JSON.parse(completion) as ChatCompletion | null;

const intsOf = (bytes: Buffer) =>
  new Int32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
const floatsOf = (bytes: Buffer) =>
  new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));

/** All tokens up to the end of a turn: those of its parents, its prompt, its answer. */
export function tokensOf(db: Db | Tx, turn: TurnRow): Int32Array {
  const parts: Int32Array[] = [];
  for (
    let at: TurnRow | undefined = turn;
    at;
    at = at.parent === null ? undefined : turnAt(db, at.rolloutId, at.parent)
  )
    parts.unshift(intsOf(at.promptIds), intsOf(at.tokenIds));
  const tokens = new Int32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let length = 0;
  for (const part of parts) {
    tokens.set(part, length);
    length += part.length;
  }
  return tokens;
}

type NewTurn = Omit<TurnRow, "rolloutId" | "workspaceId" | "number" | "createdAt">;
/** `prompt`, `completion`: tokens for the sums of the rollout. */
type Counts = { prompt: number; completion: number };

/** Undefined: the rollout was deleted meanwhile. A turn that the client left is replaced by that of the repeated request. */
export function store(
  ctx: Ctx,
  rollout: RolloutRow,
  turn: NewTurn,
  { prompt, completion }: Counts,
): TurnRow | undefined {
  const { id, workspaceId } = rollout;
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const current = tx.select().from(rollouts).where(eq(rollouts.id, id)).get();
    if (!current) return undefined;
    const left = and(eq(table.rolloutId, id), eq(table.requestHash, turn.requestHash), eq(table.status, "cancelled"));
    const [replaced] =
      turn.status === "done"
        ? tx.delete(table).where(left).returning({ number: table.number, branch: table.branch }).all()
        : [];
    const number = replaced?.number ?? current.turnCount + 1;
    const row = insert(tx, { ...turn, rolloutId: id, workspaceId, number, createdAt: now });
    tx.update(rollouts)
      .set({
        turnCount: current.turnCount + (replaced ? 0 : 1),
        branchCount: current.branchCount + (turn.branch ? 1 : 0) - (replaced?.branch ? 1 : 0),
        promptTokens: current.promptTokens + prompt,
        completionTokens: current.completionTokens + completion,
        costMicros: current.costMicros + turn.costMicros,
        updatedAt: now,
      })
      .where(eq(rollouts.id, id))
      .run();
    mustHaveRoom({ db: tx, config: ctx.config }, { workspaceId, kind: "chats" }, { bytes: 0 });
    return row;
  });
}

/** The turns after number `after`, as many as fit a page. */
export function listTurns(ctx: Ctx, { id }: RolloutRow, { after, limit }: { after: number; limit: number }) {
  const rows = ctx.db
    .select()
    .from(table)
    .where(and(eq(table.rolloutId, id), gt(table.number, after)))
    .orderBy(asc(table.number))
    .limit(limit + 1)
    .all();
  return { object: "list" as const, data: rows.slice(0, limit).map(presentTurn), has_more: rows.length > limit };
}

export const presentTurn = (row: TurnRow): RolloutTurn => ({
  object: "rollout.turn",
  number: row.number,
  parent: row.parent,
  branch: row.branch,
  status: row.status,
  kept_messages: row.keptMessages,
  messages: JSON.parse(row.messages),
  tools: JSON.parse(row.tools),
  settings: JSON.parse(row.settings),
  completion: completionOf(row),
  kept_tokens: row.keptTokens,
  prompt_token_ids: [...intsOf(row.promptIds)],
  token_ids: [...intsOf(row.tokenIds)],
  logprobs: [...floatsOf(row.logprobs)],
  has_end: row.hasEnd,
  stop: row.stop,
  weights: row.weights,
  trace_id: row.traceId,
  latency_ms: row.latencyMs,
  first_token_ms: row.firstTokenMs,
  cost_usd: usdOf(row.costMicros),
  created_at: isoTime(row.createdAt),
});

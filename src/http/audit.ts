/**
 * The audit log: one row for every call that may change something and has a known caller, and for every such command on
 * the server's machine. The row is in the commit of the change, or in a later one that the answer waits for. So every
 * acknowledged call is in the log. A refused call is in it too, but its answer does not wait. Calls over the rate limit
 * are left out, because their number has no bound. The log never holds a body, a query or a header.
 * NOT covered: a call that a kill or the end of a stopping server cut off before its answer may be missing.
 */
import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Ctx } from "../context.ts";
import { newId } from "../lib/ids.ts";
import { pathOf } from "../lib/net/request_target.ts";
import { isOfRoute } from "../lib/route_names.ts";
import { durable, isBroken, isClosed, joinCommit } from "../platform/db/db.ts";
import { preparedInsert } from "../platform/db/row.ts";
import { addressOf } from "./client.ts";
import { type Caller, requestIdOf, setCaller, stateOf } from "./request_state.ts";

export const auditLog = sqliteTable(
  "audit_log",
  {
    workspaceId: text("workspace_id").notNull(),
    id: text("id").notNull(),
    keyId: text("key_id").notNull(),
    method: text("method").notNull(),
    path: text("path").notNull(),
    made: text("made"),
    status: integer("status").notNull(),
    address: text("address"),
    requestId: text("request_id").notNull(),
    createdAt: integer("created_at").notNull(),
    /** The user that the key belonged to. */
    userId: text("user_id"),
  },
  (t) => [primaryKey({ columns: [t.workspaceId, t.id] })],
);
export type AuditRow = typeof auditLog.$inferSelect;

const insert = preparedInsert(auditLog);
const LONGEST_PATH = 2_048;
/** These calls use something and change nothing; each has a record of its own. A refused detection has none. */
const INFERENCE =
  /^POST \/v1\/(?:deployments\/[^/]+\/)?(?:chat\/completions|completions|embeddings|chat\/completions\/input_tokens)$/;
const OTHER_CLIENTS =
  /^POST \/(?:v1\/(?:messages|messages\/count_tokens|responses|responses\/input_tokens|rerank|moderations)|completion|infill|tokenize|detokenize|apply-template|api\/(?:chat|generate|embed|embeddings|show))$/;
const OF_MODELS =
  /^POST \/(?:v1beta\/models\/[^/]+\/(?:\w+Contents?|countTokens)|models\/[^/]+\/pipeline\/feature-extraction)$/;
const DETECTION = /^POST \/(?:api\/detect(?:\/url)?|v1\/detect)$/;
const isUse = (call: string, status: number) =>
  INFERENCE.test(call) || OTHER_CLIENTS.test(call) || OF_MODELS.test(call) || (status < 400 && DETECTION.test(call));

/** All others may change something. */
export const isRead = ({ method }: Request) => method === "GET" || method === "HEAD";

/** Records nothing without a caller: a request without a key changes nothing that belongs to a workspace. */
export function audit(ctx: Ctx, request: Request, status: number) {
  const { caller, route, made = null } = stateOf(request);
  if (!caller || status === 429 || (route !== undefined && isUse(`${request.method} ${route}`, status))) return;
  if (isClosed(ctx.db) || (status >= 400 && isBroken(ctx.db))) return; // there is nowhere to keep it
  const now = ctx.clock.now();
  const path = pathOf(request);
  const shown = route === undefined || isOfRoute(route, path) ? path : route;
  const row: AuditRow = {
    workspaceId: caller.workspaceId,
    id: newId("aud", now),
    keyId: caller.keyId,
    method: request.method,
    path: shown.slice(0, LONGEST_PATH),
    made,
    status,
    address: addressOf(ctx, request),
    requestId: requestIdOf(request),
    createdAt: now,
    userId: caller.userId ?? null,
  };
  joinCommit(ctx.db, (tx) => insert(tx, row));
}

/**
 * For a GET that shows a secret. Await it before the secret is sent: if the entry cannot be written, the request fails.
 */
export async function auditReveal(ctx: Ctx, request: Request, caller: Caller): Promise<void> {
  setCaller(request, caller);
  audit(ctx, request, 200);
  await durable(ctx.db);
}

export type Command = { who: string; words: string; workspaceId: string; made: string | null };

/** Records a command on the server's own machine, in the open commit. */
export function auditCommand(ctx: Ctx, { who, words, workspaceId, made }: Command) {
  const now = ctx.clock.now();
  const row: AuditRow = {
    workspaceId,
    id: newId("aud", now),
    keyId: who,
    createdAt: now,
    requestId: crypto.randomUUID(),
    method: "CLI",
    path: words,
    made,
    status: 200,
    address: null,
    userId: null,
  };
  joinCommit(ctx.db, (tx) => insert(tx, row));
}

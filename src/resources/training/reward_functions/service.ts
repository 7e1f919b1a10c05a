/**
 * Reward functions: code that scores completions, or, of the kind resolver, maps rows. Versions never change; a version is
 * named by id or name@3.
 */
import { and, desc, eq, isNull, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { fileResponse } from "../../../http/answer/file_response.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { isId, newId } from "../../../lib/ids.ts";
import { extensionOf } from "../../../lib/rewards/language.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert } from "../../../platform/db/row.ts";
import { builtin } from "./builtin.ts";
import { present, type RewardFunction } from "./schema.ts";
import { type Kind, type RewardFunctionRow, records, rewardFunctions } from "./table.ts";

const { table } = records;
const insert = preparedInsert(rewardFunctions);
const there = isNull(table.deletedAt);

/** A version's name, such as `accuracy@3`. */
const VERSION = /^(.+)@(\d{1,9})$/;

/** Finds by id, by name@3, or by name: the newest version that is ready, or else the newest. */
export function find(ctx: Ctx, workspaceId: string, ref: string): RewardFunctionRow | undefined {
  const [, name, version] = VERSION.exec(ref) ?? [];
  if (isId(ref, "rf")) return first(ctx, workspaceId, eq(table.id, ref));
  if (name !== undefined) return first(ctx, workspaceId, and(eq(table.name, name), eq(table.version, Number(version))));
  const named = eq(table.name, ref);
  return first(ctx, workspaceId, and(named, eq(table.status, "ready"))) ?? first(ctx, workspaceId, named);
}

const first = ({ db }: Pick<Ctx, "db">, workspaceId: string, where: SQL | undefined) =>
  db
    .select()
    .from(table)
    .where(and(eq(table.workspaceId, workspaceId), there, where))
    .orderBy(desc(table.version))
    .limit(1)
    .get();

export const newest = (tx: Tx | Ctx["db"], workspaceId: string, name: string): RewardFunctionRow | undefined =>
  first({ db: tx }, workspaceId, eq(table.name, name));

export function mustFind(ctx: Ctx, workspaceId: string, ref: string, param = "id"): RewardFunctionRow {
  const row = find(ctx, workspaceId, ref);
  if (row) return row;
  const hint =
    VERSION.test(ref) || isId(ref, "rf") ? "" : ": use an id, a name, name@3 or the name of a built-in reward";
  throw new AppError("resource_not_found", `No reward function ${ref.slice(0, 80)}${hint}`, { param });
}

/** A reward function of the workspace, or a built-in one. */
export const get = (ctx: Ctx, workspaceId: string, ref: string): RewardFunction =>
  builtin(ctx, ref)?.record ?? present(mustFind(ctx, workspaceId, ref));

type ListQuery = PageQuery & { name?: string | undefined; kind?: Kind | undefined; latest: boolean };

export function list(ctx: Ctx, workspaceId: string, { name, kind, latest, ...query }: ListQuery) {
  const isNewest = sql`NOT EXISTS (SELECT 1 FROM reward_functions newer WHERE newer.workspace_id = ${table.workspaceId}
    AND newer.name = ${table.name} AND newer.version > ${table.version} AND newer.deleted_at IS NULL)`;
  const within = and(
    eq(table.workspaceId, workspaceId),
    there,
    name === undefined ? undefined : eq(table.name, name),
    kind === undefined ? undefined : eq(table.kind, kind),
    latest ? isNewest : undefined,
  );
  return page(ctx.db, table, within, query, present);
}

export type NewVersion = Omit<RewardFunctionRow, "id" | "version" | "createdAt" | "deletedAt"> & { source: string };

/** The version is counted inside the commit, so concurrent uploads leave no gap. */
export function add(tx: Tx, version: NewVersion, now: number): RewardFunctionRow {
  const { last } = tx
    .select({ last: sql<number>`coalesce(max(${table.version}), 0)` })
    .from(table)
    .where(and(eq(table.workspaceId, version.workspaceId), eq(table.name, version.name)))
    .get() ?? { last: 0 };
  const id = newId("rf", now);
  const row = insert(tx, { ...version, id, version: last + 1, createdAt: now, deletedAt: null });
  emit(tx, "reward_function.created", { workspaceId: row.workspaceId, now }, present(row));
  return row;
}

/** Deletes one version, by id or name@3. */
export function remove(ctx: Ctx, workspaceId: string, ref: string): RewardFunctionRow {
  const now = ctx.clock.now();
  if (builtin(ctx, ref))
    throw new AppError("invalid_request", "Built-in reward functions cannot be deleted", { param: "id" });
  return write(ctx.db, (tx) => {
    const row = mustFind(ctx, workspaceId, ref);
    if (ref === row.name)
      throw new AppError(
        "invalid_request",
        `${ref} is a name, which may have several versions: delete one version by its id (${row.id}) or as ${ref}@${row.version}`,
        { param: "id" },
      );
    erase(tx, row, now);
    return row;
  });
}

function erase(tx: Tx, row: RewardFunctionRow, now: number) {
  tx.update(rewardFunctions)
    .set({ deletedAt: now, source: "", description: null, metadata: {}, entrypoints: [], error: null })
    .where(eq(rewardFunctions.id, row.id))
    .run();
  emit(tx, "reward_function.deleted", { workspaceId: row.workspaceId, now }, present(row));
}

/** For a deleted workspace. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const all = tx
      .select()
      .from(table)
      .where(and(eq(table.workspaceId, workspaceId), there))
      .all();
    for (const row of all) erase(tx, row, now);
  });
}

export const sourceOf = (ctx: Ctx, id: string): string =>
  ctx.db.select({ source: rewardFunctions.source }).from(rewardFunctions).where(eq(rewardFunctions.id, id)).get()
    ?.source ?? "";

/** The code as it was uploaded. */
export async function send(ctx: Ctx, workspaceId: string, ref: string, request: Request): Promise<Response> {
  const known = builtin(ctx, ref);
  const row = known ? undefined : mustFind(ctx, workspaceId, ref);
  const { name, language, sha256, size_bytes: sizeBytes } = known?.record ?? present(row as RewardFunctionRow);
  const bytes = new TextEncoder().encode(known?.source ?? sourceOf(ctx, row?.id ?? ""));
  const answer = await fileResponse(request, {
    name: `${name}.${extensionOf(language)}`,
    contentType: "text/plain; charset=utf-8",
    sizeBytes,
    sha256,
    updatedAt: row?.createdAt ?? 0,
    async open({ offset = 0, length = bytes.byteLength }) {
      const part = bytes.subarray(offset, offset + length);
      return { stream: new Blob([part]).stream(), bytes: part.byteLength, totalBytes: bytes.byteLength, sha256 };
    },
  });
  if (!answer) throw new AppError("resource_not_found", `No reward function ${ref.slice(0, 80)}`, { param: "id" });
  return answer;
}

/**
 * Reward functions: code that scores completions, or, of the kind resolver, maps rows. Versions never change; a version is
 * named by id or name@3.
 */
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { fileResponse } from "../../../http/answer/file_response.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { extensionOf } from "../../../lib/rewards/language.ts";
import type { Tx } from "../../../platform/db/db.ts";
import { preparedInsert } from "../../../platform/db/row.ts";
import { versionsOf } from "../../../platform/db/versions.ts";
import { builtin } from "./builtin.ts";
import { present, type RewardFunction } from "./schema.ts";
import { type Kind, type RewardFunctionRow, records, rewardFunctions } from "./table.ts";

const { table } = records;
const insert = preparedInsert(rewardFunctions);

const versions = versionsOf(table, {
  prefix: "rf",
  missing: (ref, isName) =>
    `No reward function ${ref}${isName ? ": use an id, a name, name@3 or the name of a built-in reward" : ""}`,
  preferred: eq(table.status, "ready"),
  erase(tx, row, now) {
    tx.update(rewardFunctions)
      .set({ deletedAt: now, source: "", description: null, metadata: {}, entrypoints: [], error: null })
      .where(eq(rewardFunctions.id, row.id))
      .run();
    emit(tx, "reward_function.deleted", { workspaceId: row.workspaceId, now }, present(row));
  },
});
export const { newest, mustFind, removeAll } = versions;

/** A reward function of the workspace, or a built-in one. */
export const get = (ctx: Ctx, workspaceId: string, ref: string): RewardFunction =>
  builtin(ctx, ref)?.record ?? present(mustFind(ctx, workspaceId, ref));

type ListQuery = PageQuery & { name?: string | undefined; kind?: Kind | undefined; latest: boolean };

export function list(ctx: Ctx, workspaceId: string, query: ListQuery) {
  const { kind } = query;
  const within = and(versions.within(workspaceId, query), kind === undefined ? undefined : eq(table.kind, kind));
  return page(ctx.db, table, within, query, present);
}

export type NewVersion = Omit<RewardFunctionRow, "id" | "version" | "createdAt" | "deletedAt"> & { source: string };

export function add(tx: Tx, version: NewVersion, now: number): RewardFunctionRow {
  const row = insert(tx, { ...version, ...versions.next(tx, version, now) });
  emit(tx, "reward_function.created", { workspaceId: row.workspaceId, now }, present(row));
  return row;
}

/** Deletes one version, by id or name@3. */
export function remove(ctx: Ctx, workspaceId: string, ref: string): RewardFunctionRow {
  if (builtin(ctx, ref))
    throw new AppError("invalid_request", "Built-in reward functions cannot be deleted", { param: "id" });
  return versions.remove(ctx, workspaceId, ref);
}

export const sourceOf = (ctx: Ctx, id: string): string =>
  ctx.db.select({ source: rewardFunctions.source }).from(rewardFunctions).where(eq(rewardFunctions.id, id)).get()
    ?.source ?? "";

/** The code as it was uploaded. */
export async function send(ctx: Ctx, workspaceId: string, ref: string, request: Request): Promise<Response> {
  const entry = builtin(ctx, ref);
  const row = entry ? undefined : mustFind(ctx, workspaceId, ref);
  const { name, language, sha256, size_bytes: sizeBytes } = entry?.record ?? present(row as RewardFunctionRow);
  const bytes = new TextEncoder().encode(entry?.source ?? sourceOf(ctx, row?.id ?? ""));
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

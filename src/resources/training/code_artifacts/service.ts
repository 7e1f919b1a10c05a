/** Code artifacts: archives with the code of custom jobs. The same bytes are one artifact in a workspace. */
import { and, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { fileResponse } from "../../../http/answer/file_response.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import * as looseKeys from "../../data/loose_keys/service.ts";
import { present } from "./schema.ts";
import { type CodeArtifactRow, codeArtifacts } from "./table.ts";

const insert = preparedInsert(codeArtifacts);
const mine = eq(codeArtifacts.workspaceId, sql.placeholder("workspaceId"));
const byId = preparedRow(codeArtifacts, and(eq(codeArtifacts.id, sql.placeholder("id")), mine));
const byHash = preparedRow(codeArtifacts, and(eq(codeArtifacts.sha256, sql.placeholder("sha256")), mine));

export function mustGet(ctx: Ctx, workspaceId: string, id: string): CodeArtifactRow {
  const row = byId(ctx.db, { id, workspaceId });
  if (!row) throw new AppError("resource_not_found", `No code artifact ${id.slice(0, 80)}`, { param: "id" });
  return row;
}

export const withContent = (ctx: Ctx, workspaceId: string, sha256: string): CodeArtifactRow | undefined =>
  byHash(ctx.db, { sha256, workspaceId });

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(ctx.db, codeArtifacts, eq(codeArtifacts.workspaceId, workspaceId), query, present);

export type NewArtifact = Omit<CodeArtifactRow, "id" | "createdAt" | "updatedAt">;

export function add(tx: Tx, artifact: NewArtifact, now: number): CodeArtifactRow {
  const row = insert(tx, { ...artifact, id: newId("art", now), createdAt: now, updatedAt: now });
  emit(tx, "code_artifact.created", { workspaceId: row.workspaceId, now }, present(row));
  return row;
}

export function remove(ctx: Ctx, workspaceId: string, id: string): CodeArtifactRow {
  const now = ctx.clock.now();
  const row = write(ctx.db, (tx) => {
    const artifact = mustGet(ctx, workspaceId, id);
    tx.delete(codeArtifacts).where(eq(codeArtifacts.id, id)).run();
    looseKeys.drop(tx, artifact.storageKey, now);
    emit(tx, "code_artifact.deleted", { workspaceId, now }, present(artifact));
    return artifact;
  });
  ctx.wake("volumes.sweep");
  return row;
}

/** For a deleted workspace. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const rows = ctx.db
    .select({ id: codeArtifacts.id })
    .from(codeArtifacts)
    .where(eq(codeArtifacts.workspaceId, workspaceId))
    .all();
  for (const { id } of rows) remove(ctx, workspaceId, id);
}

const TYPES = { "tar.gz": "application/gzip", zip: "application/zip" } as const;

/** The archive as it was uploaded. */
export async function send(ctx: Ctx, workspaceId: string, id: string, request: Request): Promise<Response> {
  const row = mustGet(ctx, workspaceId, id);
  const suffix = `.${row.format}`;
  const answer = await fileResponse(request, {
    ...row,
    name: row.name.endsWith(suffix) ? row.name : `${row.name}${suffix}`,
    contentType: TYPES[row.format],
    open: (range) => ctx.storage.get(row.storageKey, range),
  });
  if (answer) return answer;
  mustGet(ctx, workspaceId, id); // 404 if it was deleted meanwhile
  throw new LostKeyError(row.storageKey);
}

/** Vector stores in the format of OpenAI: files of the workspace, in chunks with embeddings. */
import { and, count, eq, isNull, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { embedders, mustFind } from "../../serving/deployments/served.ts";
import { clientList } from "../conversations/schema.ts";
import { countsOf } from "./counts.ts";
import { addFiles } from "./files.ts";
import { type CreateStore, expiryOf, present, type UpdateStore } from "./schema.ts";
import { type StoreRow, vectorFiles, vectorStores } from "./table.ts";

const MOST_STORES = 1_000;

const insert = preparedInsert(vectorStores);
const byId = preparedRow(
  vectorStores,
  and(
    eq(vectorStores.id, sql.placeholder("id")),
    eq(vectorStores.workspaceId, sql.placeholder("workspaceId")),
    isNull(vectorStores.removedAt),
  ),
);

export const find = (ctx: Pick<Ctx, "db">, workspaceId: string, id: string): StoreRow | undefined =>
  byId(ctx.db, { id, workspaceId });

export function mustGet(ctx: Pick<Ctx, "db">, workspaceId: string, id: string): StoreRow {
  const row = find(ctx, workspaceId, id);
  if (row) return row;
  throw new AppError("resource_not_found", `No vector store ${id.slice(0, 80)}`, { param: "id" });
}

export const isExpired = (row: StoreRow, now: number) => (expiryOf(row) ?? Number.POSITIVE_INFINITY) <= now;

export function mustBeOpen(ctx: Ctx, workspaceId: string, id: string): StoreRow {
  const row = mustGet(ctx, workspaceId, id);
  if (!isExpired(row, ctx.clock.now())) return row;
  throw new AppError("unsupported_state", `Vector store ${id} has expired: create another`, { param: "id" });
}

export const shown = (ctx: Ctx, row: StoreRow) =>
  present(row, { ...countsOf(ctx, eq(vectorFiles.storeId, row.id)), now: ctx.clock.now() });

export const list = (ctx: Ctx, workspaceId: string, query: Parameters<typeof page>[3]) => {
  const isShown = and(eq(vectorStores.workspaceId, workspaceId), isNull(vectorStores.removedAt));
  return clientList(page(ctx.db, vectorStores, isShown, query, (row) => shown(ctx, row)));
};

/** The name of the deployment that embeds. It need not run yet when it is named. */
function modelFor(ctx: Ctx, workspaceId: string, { embedding_model, metadata }: CreateStore): string {
  const named = embedding_model ?? metadata?.["embedding_model"];
  if (named !== undefined) {
    mustFind(ctx, workspaceId, named);
    return named;
  }
  const [only, ...others] = embedders(ctx, workspaceId);
  if (only && others.length === 0) return only.name;
  const found = only
    ? `several deployments embed texts: ${[only, ...others].map(({ name }) => name).join(", ")}`
    : "no deployment of an embedding model is active";
  const message = `embedding_model: is required, because ${found}. Name a deployment in embedding_model or metadata.embedding_model`;
  throw new AppError("schema", message, { param: "/embedding_model" });
}

export function create(ctx: Ctx, workspaceId: string, body: CreateStore): StoreRow {
  const now = ctx.clock.now();
  const row: StoreRow = {
    id: newId("vs", now),
    workspaceId,
    name: body.name ?? "",
    metadata: body.metadata ?? {},
    embeddingModel: modelFor(ctx, workspaceId, body),
    dimensions: null,
    expiresDays: body.expires_after?.days ?? null,
    usedAt: now,
    removedAt: null,
    createdAt: now,
    updatedAt: now,
  };
  write(ctx.db, (tx) => {
    mustHavePlace(tx, workspaceId);
    insert(tx, row);
    const { chunking_strategy, file_ids } = body;
    const files = (file_ids ?? []).map((file_id) => ({ file_id, chunking_strategy }));
    addFiles(ctx, tx, row, files, { param: (i) => `/file_ids/${i}` });
  });
  ctx.wake("vector_stores.index");
  return row;
}

function mustHavePlace(tx: Tx, workspaceId: string) {
  const isShown = and(eq(vectorStores.workspaceId, workspaceId), isNull(vectorStores.removedAt));
  const stores = tx.select({ number: count() }).from(vectorStores).where(isShown).get()?.number ?? 0;
  if (stores >= MOST_STORES)
    throw new AppError(
      "quota_exceeded",
      `This workspace has ${MOST_STORES} vector stores, which is the limit: delete one`,
    );
}

export function update(ctx: Ctx, workspaceId: string, id: string, change: UpdateStore): StoreRow {
  const row = mustGet(ctx, workspaceId, id);
  const now = ctx.clock.now();
  const changed = {
    name: change.name === undefined ? row.name : (change.name ?? ""),
    metadata: change.metadata === undefined ? row.metadata : (change.metadata ?? {}),
    expiresDays: change.expires_after === undefined ? row.expiresDays : (change.expires_after?.days ?? null),
    usedAt: now,
    updatedAt: now,
  };
  write(ctx.db, (tx) => void tx.update(vectorStores).set(changed).where(eq(vectorStores.id, id)).run());
  return { ...row, ...changed };
}

/** Callers do not see it any more. Its files and chunks go in small commits, in prune.ts. */
export function remove(ctx: Ctx, workspaceId: string, id: string) {
  mustGet(ctx, workspaceId, id);
  const removedAt = ctx.clock.now();
  write(ctx.db, (tx) => void tx.update(vectorStores).set({ removedAt }).where(eq(vectorStores.id, id)).run());
  ctx.wake("vector_stores.prune");
}

/** Searches a vector store: every chunk of the files that pass is compared with the query, some rows a turn. */
import { and, asc, eq, gt, inArray, isNull } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import { write } from "../../../platform/db/db.ts";
import { embed } from "../../serving/deployments/chat/generate.ts";
import { mustFind } from "../../serving/deployments/served.ts";
import { clientFiles } from "../files/table.ts";
import { type Filter, passes } from "./filters.ts";
import type { Search } from "./schema.ts";
import { type StoreRow, type VectorFileRow, vectorChunks, vectorFiles, vectorStores } from "./table.ts";
import { cosine, unit, vectorOf } from "./vectors.ts";

const ROWS = 64;
const FILES = 500;

type Match = { chunk: number; file: string; score: number };

export async function search(
  ctx: Ctx,
  { workspaceId, keyId }: Principal,
  store: StoreRow,
  body: Search,
  signal: AbortSignal,
) {
  const input = typeof body.query === "string" ? [body.query] : body.query;
  touch(ctx, store);
  const files = await filesOf(ctx, store, body.filters as Filter | null | undefined);
  const task = { workspaceId, deploymentId: mustFind(ctx, workspaceId, store.embeddingModel).id, keyId };
  const queries = (await embed(ctx, { ...task, background: false, signal, input })).map(unit);
  const found = await bestOf(ctx, store, { files, queries, signal, search: body });
  return {
    object: "vector_store.search_results.page" as const,
    search_query: input,
    data: resultsOf(ctx, found, files),
    has_more: false,
    next_page: null,
  };
}

/** A store expires some days after its last use. */
function touch(ctx: Ctx, { id, usedAt }: StoreRow) {
  const now = ctx.clock.now();
  if (now - usedAt < MINUTE_MS) return;
  write(ctx.db, (tx) => void tx.update(vectorStores).set({ usedAt: now }).where(eq(vectorStores.id, id)).run());
}

type Searchable = Pick<VectorFileRow, "id" | "fileId" | "attributes">;

/** The files whose chunks are searched, by their own ids. */
async function filesOf(ctx: Ctx, store: StoreRow, filter: Filter | null | undefined): Promise<Map<string, Searchable>> {
  const { id, fileId, attributes, storeId, status, removedAt } = vectorFiles;
  const turn = takingTurns();
  const files = new Map<string, Searchable>();
  for (let after = ""; ; ) {
    const rows = ctx.db
      .select({ id, fileId, attributes })
      .from(vectorFiles)
      .where(and(eq(storeId, store.id), eq(status, "completed"), isNull(removedAt), gt(id, after)))
      .orderBy(asc(id))
      .limit(FILES)
      .all();
    for (const row of rows) if (!filter || passes(filter, row.attributes ?? {})) files.set(row.id, row);
    after = rows.at(-1)?.id ?? after;
    if (rows.length < FILES) return files;
    await turn();
  }
}

type Searched = {
  files: ReadonlyMap<string, Searchable>;
  queries: readonly Float32Array[];
  signal: AbortSignal;
  search: Search;
};

/** The best chunks, the best first. Of several queries, the one that is nearest counts. */
async function bestOf(ctx: Ctx, store: StoreRow, { files, queries, signal, search }: Searched): Promise<Match[]> {
  const most = search.max_num_results;
  const least = search.ranking_options?.score_threshold ?? 0;
  const turn = takingTurns();
  let best: Match[] = [];
  for (let after = 0; files.size > 0; ) {
    signal.throwIfAborted();
    const rows = ctx.db
      .select({ id: vectorChunks.id, file: vectorChunks.vectorFileId, vector: vectorChunks.vector })
      .from(vectorChunks)
      .where(and(eq(vectorChunks.storeId, store.id), gt(vectorChunks.id, after)))
      .orderBy(asc(vectorChunks.id))
      .limit(ROWS)
      .all();
    for (const { id, file, vector } of rows) {
      if (!files.has(file)) continue;
      const own = vectorOf(vector);
      const score = Math.min(
        1,
        Math.max(0, ...queries.map((query) => cosine(query, own) ?? wrongLength(store, query))),
      );
      if (score >= least) best.push({ chunk: id, file, score });
    }
    best = best.sort((a, b) => b.score - a.score || a.chunk - b.chunk).slice(0, most);
    if (rows.length < ROWS) break;
    after = rows.at(-1)?.id ?? after;
    await turn();
  }
  return best;
}

function wrongLength({ id, embeddingModel, dimensions }: StoreRow, query: Float32Array): never {
  throw new AppError(
    "unsupported_state",
    `${embeddingModel} now gives vectors of ${query.length} numbers, and those of ${id} have ${dimensions}: create another store`,
  );
}

function resultsOf(ctx: Ctx, found: readonly Match[], files: ReadonlyMap<string, Searchable>) {
  const chunks = ctx.db
    .select({ id: vectorChunks.id, text: vectorChunks.text })
    .from(vectorChunks)
    .where(
      inArray(
        vectorChunks.id,
        found.map(({ chunk }) => chunk),
      ),
    )
    .all();
  const texts = new Map(chunks.map(({ id, text }) => [id, text]));
  const ids = found.map(({ file }) => files.get(file)?.fileId ?? "");
  const names = new Map(
    ctx.db
      .select({ id: clientFiles.id, filename: clientFiles.filename })
      .from(clientFiles)
      .where(inArray(clientFiles.id, ids))
      .all()
      .map(({ id, filename }) => [id, filename]),
  );
  return found.flatMap(({ chunk, file, score }) => {
    const row = files.get(file);
    const text = texts.get(chunk);
    if (!row || text === undefined) return []; // removed meanwhile
    return {
      file_id: row.fileId,
      filename: names.get(row.fileId) ?? "",
      score,
      attributes: row.attributes ?? {},
      content: [{ type: "text" as const, text }],
    };
  });
}

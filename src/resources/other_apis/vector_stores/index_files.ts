/**
 * The loop `vector_stores.index`. The rows are the queue: a file is due until it is completed, failed or cancelled. Each
 * commit holds some chunks and the place where the next one begins, so a kill at any line repeats a few embeddings.
 */
import { and, eq, isNull, sql, sum } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { AppError } from "../../../lib/errors.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { MIB, SECOND_MS } from "../../../lib/units.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { oldestOfEach } from "../../../platform/db/oldest_of_each.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import { mustHaveRoom } from "../../data/storage_usage/service.ts";
import { embed } from "../../serving/deployments/chat/generate.ts";
import { mustFind } from "../../serving/deployments/served.ts";
import * as sources from "../files/service.ts";
import { untilIdle } from "../until_idle.ts";
import { endOfChunk, startAfter, TOKEN_CHARACTERS } from "./chunks.ts";
import { machine } from "./machine.ts";
import { type FileError, type StoreRow, type VectorFileRow, vectorChunks, vectorFiles, vectorStores } from "./table.ts";
import { unit } from "./vectors.ts";

const MOST_FILE_BYTES = 16 * MIB;
/** In all stores of a workspace together. */
const MOST_CHUNKS = 100_000;
const BATCH = 8;
/** Files of one workspace that are checked for one that may begin. */
const MOST_WAITING = 256;
const LEAST_CHARACTERS = 32;
const MOST_ATTEMPTS = 6;
const PAUSE_MS = 10 * SECOND_MS;

const due = oldestOfEach(vectorFiles, sql`${vectorFiles.status} = 'in_progress'`, isNull(vectorFiles.removedAt));

export function runIndexing(ctx: Ctx, loop: AbortSignal): Promise<void> {
  const signal = AbortSignal.any([loop, ctx.closing]);
  return untilIdle(ctx.state.vectorStores, signal, (fail) => start(ctx, signal, fail));
}

function start(ctx: Ctx, signal: AbortSignal, fail: (error: unknown) => void) {
  const { running, permits } = ctx.state.vectorStores;
  const now = ctx.clock.now();
  const idle = due(ctx.db)
    .all({ most: MOST_WAITING })
    .filter(({ id, notBefore }) => !running.has(id) && (notBefore ?? 0) <= now);
  permits.fillFrom(idle, (row, release) => {
    const stop = new AbortController();
    const done = work(ctx, row, AbortSignal.any([signal, stop.signal]))
      .catch(fail)
      .finally(() => {
        running.delete(row.id);
        release();
      });
    running.set(row.id, { stop, done });
  });
}

/** A fault of the file, which another try would find again. */
class FileFault extends Error {
  constructor(readonly fault: FileError) {
    super(fault.message);
  }
}
const fault = (code: FileError["code"], message: string) => new FileFault({ code, message });

async function work(ctx: Ctx, row: VectorFileRow, signal: AbortSignal): Promise<void> {
  try {
    await index(ctx, row, signal);
  } catch (error) {
    if (signal.aborted || ctx.closing.aborted) return; // still due, or it was removed
    if (error instanceof FileFault) return end(ctx, row, error.fault);
    if (!(error instanceof AppError)) ctx.log.error("a file of a vector store failed", { file: row.fileId, error });
    const message = error instanceof AppError ? error.message : "Unexpected server error";
    const mayPass = error instanceof AppError && (error.status >= 500 || error.status === 429);
    if (!mayPass || row.attempts + 1 >= MOST_ATTEMPTS) return end(ctx, row, { code: "server_error", message });
    postpone(ctx, row);
  }
}

function end(ctx: Ctx, { id }: VectorFileRow, error: FileError) {
  write(ctx.db, (tx) => void transition(tx, machine, "fail", { id, now: ctx.clock.now() }, { error }));
}

function postpone(ctx: Ctx, { id, attempts }: VectorFileRow) {
  const notBefore = ctx.clock.now() + PAUSE_MS * 2 ** attempts;
  const change = { attempts: attempts + 1, notBefore };
  write(ctx.db, (tx) => void tx.update(vectorFiles).set(change).where(eq(vectorFiles.id, id)).run());
}

async function index(ctx: Ctx, row: VectorFileRow, signal: AbortSignal): Promise<void> {
  const { id, workspaceId } = row;
  const store = ctx.db.select().from(vectorStores).where(eq(vectorStores.id, row.storeId)).get();
  if (!store || store.removedAt !== null) throw fault("server_error", "The vector store was deleted");
  const text = await textOf(ctx, row);
  const deploymentId = mustFind(ctx, workspaceId, store.embeddingModel).id;
  const turn = takingTurns();
  let size = row.maxTokens * TOKEN_CHARACTERS;
  for (let position = row.position; position < text.length; ) {
    const overlap = Math.floor((size * row.overlapTokens) / row.maxTokens);
    const chunks: string[] = [];
    let next = position;
    while (chunks.length < BATCH && next < text.length) {
      const stop = endOfChunk(text, next, size);
      chunks.push(text.slice(next, stop));
      next = startAfter(text, next, stop, overlap);
    }
    const input = chunks.filter((chunk) => chunk.trim() !== "");
    try {
      const task = { workspaceId, deploymentId, background: true, signal };
      const vectors = input.length === 0 ? [] : await embed(ctx, { ...task, input });
      if (!keep(ctx, row, { texts: input, vectors: vectors.map(unit), position: next })) return;
      position = next;
    } catch (error) {
      const isTooLong = error instanceof AppError && error.code === "context_length_exceeded";
      if (!isTooLong || size <= LEAST_CHARACTERS) throw error;
      size = Math.floor(size / 2); // the model counts more tokens than we do
    }
    await turn();
  }
  write(ctx.db, (tx) => {
    const { chunkCount = 0 } = current(tx, id) ?? {};
    const now = ctx.clock.now();
    const error: FileError = { code: "invalid_file", message: "The file has no text" };
    if (chunkCount === 0) transition(tx, machine, "fail", { id, now }, { error });
    else transition(tx, machine, "complete", { id, now }, { attempts: 0 });
  });
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

async function textOf(ctx: Ctx, { workspaceId, fileId }: VectorFileRow): Promise<string> {
  const file = sources.find(ctx, workspaceId, fileId);
  if (!file) throw fault("invalid_file", "The file was deleted");
  if (file.sizeBytes > MOST_FILE_BYTES)
    throw fault("invalid_file", `The file has more than ${MOST_FILE_BYTES} bytes: split it`);
  const opened = await ctx.storage.get(file.storageKey);
  if (!opened) throw new LostKeyError(file.storageKey);
  const bytes = await new Response(opened.stream).bytes();
  try {
    return strictUtf8.decode(bytes);
  } catch {
    throw fault("unsupported_file", "The file is not text in UTF-8, and other documents are not read. Upload its text");
  }
}

const current = (tx: Tx, id: string) =>
  tx
    .select()
    .from(vectorFiles)
    .where(and(eq(vectorFiles.id, id), eq(vectorFiles.status, "in_progress"), isNull(vectorFiles.removedAt)))
    .get();

type Piece = { texts: readonly string[]; vectors: readonly Float32Array[]; position: number };

/** False: the file is no longer wanted. */
function keep(ctx: Ctx, { id, workspaceId, storeId }: VectorFileRow, { texts, vectors, position }: Piece): boolean {
  return write(ctx.db, (tx) => {
    const row = current(tx, id);
    if (!row) return false;
    const rows = texts.map((text, i) => {
      const vector = vectors[i] as Float32Array;
      return { workspaceId, storeId, vectorFileId: id, vector: Buffer.from(vector.buffer), text };
    });
    if (vectors[0]) agreeOn(tx, storeId, vectors[0].length);
    if (rows.length > 0) tx.insert(vectorChunks).values(rows).run();
    const bytes = rows.reduce((all, { text, vector }) => all + Buffer.byteLength(text) + vector.byteLength, 0);
    const change = {
      position,
      chunkCount: row.chunkCount + rows.length,
      usageBytes: row.usageBytes + bytes,
      attempts: 0,
      notBefore: null,
    };
    tx.update(vectorFiles).set(change).where(eq(vectorFiles.id, id)).run();
    mustHaveRoom({ db: tx, config: ctx.config }, { workspaceId, kind: "files" }, { bytes: 0 });
    mustHaveFewChunks(tx, workspaceId);
    return true;
  });
}

/** All vectors of a store have the same length. */
function agreeOn(tx: Tx, storeId: string, dimensions: number) {
  const store = tx.select().from(vectorStores).where(eq(vectorStores.id, storeId)).get() as StoreRow;
  if (store.dimensions === null) tx.update(vectorStores).set({ dimensions }).where(eq(vectorStores.id, storeId)).run();
  else if (store.dimensions !== dimensions)
    throw fault(
      "server_error",
      `${store.embeddingModel} now gives vectors of ${dimensions} numbers, and those of the store have ${store.dimensions}: create another store`,
    );
}

function mustHaveFewChunks(tx: Tx, workspaceId: string) {
  const chunks = tx
    .select({ number: sum(vectorFiles.chunkCount).mapWith(Number) })
    .from(vectorFiles)
    .where(and(eq(vectorFiles.workspaceId, workspaceId), isNull(vectorFiles.removedAt)))
    .get();
  if ((chunks?.number ?? 0) > MOST_CHUNKS)
    throw fault(
      "server_error",
      `The vector stores of a workspace have at most ${MOST_CHUNKS} chunks: delete some files`,
    );
}

/**
 * Loose keys: keys of the storage without an owner. A key is recorded as loose before its first byte is written. The
 * commit that gives it an owner removes that record; deleting the owner adds it again. So after a kill at any point,
 * every key of the storage has a row, and no row names a key without content.
 */
import { asc, eq, gt, inArray, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { durable, type Tx, write } from "../../../platform/db/db.ts";
import type { Written } from "../../../platform/files.ts";
import { looseKeys } from "./table.ts";

const BITE = 100;

type NewContent<T> = {
  key: string;
  put: () => Promise<Written>;
  /** Makes a row the owner of the key. */
  own: (tx: Tx, written: Written) => T;
};

/** Resolves when the content and its owner are on the disk. If it rejects, neither exists. */
export async function store<T>(ctx: Ctx, { key, put, own }: NewContent<T>): Promise<T> {
  const { writing } = ctx.state.looseKeys;
  writing.add(key);
  try {
    write(ctx.db, (tx) => drop(tx, key, ctx.clock.now()));
    await durable(ctx.db);
    const written = await put();
    const owner = write<object>(ctx.db, (tx) => {
      tx.delete(looseKeys).where(eq(looseKeys.key, key)).run();
      return { row: own(tx, written) };
    });
    await durable(ctx.db);
    return (owner as { row: T }).row; // write() rejects async results by type, and cannot check a type parameter.
  } finally {
    writing.delete(key);
    ctx.wake("volumes.sweep"); // There may be a failed or a replaced key to remove.
  }
}

/** Records that the key has no owner. The loop removes its content after the commit is on the disk. */
export function drop(tx: Tx, key: string, now: number) {
  tx.insert(looseKeys).values({ key, createdAt: now }).onConflictDoNothing().run();
}

/** The same for many keys: an upload may have thousands of parts. */
export function dropAll(tx: Tx, keys: readonly string[], now: number) {
  const all = sql`SELECT value AS key, ${now} AS created_at FROM json_each(${JSON.stringify(keys)}) WHERE true`;
  tx.insert(looseKeys).select(all).onConflictDoNothing().run();
}

type Sweep = { signal?: AbortSignal | undefined; spare?: (key: string) => boolean };

/** Removes the content of loose keys, except keys that `spare` accepts. A failure does not stop the others. */
export async function sweep(ctx: Ctx, { signal, spare = () => false }: Sweep = {}): Promise<number> {
  let removed = 0;
  for (let after = ""; !signal?.aborted; ) {
    const { key: column } = looseKeys;
    const page = ctx.db
      .select({ key: column })
      .from(looseKeys)
      .where(gt(column, after))
      .orderBy(asc(column))
      .limit(BITE)
      .all();
    const last = page.at(-1);
    if (!last) break;
    after = last.key;
    await durable(ctx.db); // The commit that made them loose may not be on the disk yet.
    const keys = page.map(({ key }) => key).filter((key) => !spare(key));
    removed += await removeContent(ctx, keys);
  }
  return removed;
}

async function removeContent(ctx: Ctx, keys: string[]): Promise<number> {
  const removed: string[] = [];
  const turn = takingTurns();
  for (const key of keys) {
    await turn();
    const still = ctx.db.select().from(looseKeys).where(eq(looseKeys.key, key)).get();
    if (!still || ctx.state.looseKeys.writing.has(key)) continue;
    try {
      await ctx.storage.delete(key);
      removed.push(key);
    } catch (error) {
      ctx.log.error("deleting a key of the storage failed", { storage_key: key, error });
    }
  }
  write(ctx.db, (tx) => {
    tx.delete(looseKeys).where(inArray(looseKeys.key, removed)).run();
  });
  return removed.length;
}

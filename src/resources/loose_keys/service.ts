/**
 * Keys of the storage and who owns them. A key is written down as loose before its first byte, and stops being loose in
 * the commit that gives it an owner; an owner that goes makes it loose again. So whatever is killed where, every key of
 * the storage is known to a row, and no row names a key without content.
 */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { oncePer } from "../../lib/once_per.ts";
import { type Db, durable, type Tx, write } from "../../platform/db/db.ts";
import type { Written } from "../../platform/files.ts";
import { looseKeys } from "./table.ts";

const BITE = 1_000;

/** Being written by this process: not to be swept. */
const busyOf = oncePer((_db: Db) => new Set<string>());

type Storing<T> = {
  key: string;
  put: () => Promise<Written>;
  /** Makes a row the owner of the key. */
  own: (tx: Tx, written: Written) => T;
};

/** When it resolves, the content and its owner are on the disk; when it rejects, neither will be found again. */
export async function store<T>(ctx: Ctx, { key, put, own }: Storing<T>): Promise<T> {
  const busy = busyOf(ctx.db);
  busy.add(key);
  try {
    write(ctx.db, (tx) => drop(tx, key, ctx.clock.now()));
    await durable(ctx.db);
    const written = await put();
    const owner = write<object>(ctx.db, (tx) => {
      tx.delete(looseKeys).where(eq(looseKeys.key, key)).run();
      return { row: own(tx, written) };
    });
    await durable(ctx.db);
    return (owner as { row: T }).row; // write() cannot see through the type parameter
  } finally {
    busy.delete(key);
    ctx.wake("volumes.sweep"); // for what failed, and for what it replaced
  }
}

/** Nobody owns it any more. Its content goes once that is on the disk. */
export function drop(tx: Tx, key: string, now: number) {
  tx.insert(looseKeys).values({ key, createdAt: now }).onConflictDoNothing().run();
}

type Sweep = { signal?: AbortSignal | undefined; spare?: (key: string) => boolean };

/** Removes the content of loose keys. One that fails does not keep the others. */
export async function sweep(ctx: Ctx, { signal, spare = () => false }: Sweep = {}): Promise<number> {
  let removed = 0;
  for (let after = ""; !signal?.aborted; ) {
    const page = ctx.db.$client
      .query<{ key: string }, [string, number]>("SELECT key FROM loose_keys WHERE key > ? ORDER BY key LIMIT ?")
      .all(after, BITE);
    const last = page.at(-1);
    if (!last) break;
    after = last.key;
    await durable(ctx.db); // that they are loose may be news of this moment
    const keys = page.map(({ key }) => key).filter((key) => !spare(key));
    removed += await removeContent(ctx, keys);
  }
  return removed;
}

async function removeContent(ctx: Ctx, keys: string[]): Promise<number> {
  const gone: string[] = [];
  for (const key of keys) {
    const still = ctx.db.select().from(looseKeys).where(eq(looseKeys.key, key)).get();
    if (!still || busyOf(ctx.db).has(key)) continue;
    try {
      await ctx.storage.delete(key);
      gone.push(key);
    } catch (error) {
      ctx.log.error("a key of the storage could not be removed", { storage_key: key, error });
    }
  }
  write(ctx.db, (tx) => {
    for (const key of gone) tx.delete(looseKeys).where(eq(looseKeys.key, key)).run();
  });
  return gone.length;
}

/**
 * Beginnings of prompts on the disk: a folder for each workspace, and the key that its blocks are sealed with. Replicas
 * write and read the blocks (workers/serving/engine/prefixes); a replica has the folder of its own workspace alone. The
 * folder is a cache: it is in no backup, and it may be removed at any time.
 */
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { BLOCK_FORMAT } from "../../../../lib/prefix_blocks.ts";
import { write } from "../../../../platform/db/db.ts";
import { preparedRow } from "../../../../platform/db/row.ts";
import { writeFileAtomicSync } from "../../../../platform/files.ts";
import * as workspaces from "../../../access/workspaces/service.ts";
import { type PrefixStoreRow, prefixStores } from "../table.ts";

export const rootOf = ({ config }: Pick<Ctx, "config">) => join(config.data_dir, "prefixes");
export const dirOf = (ctx: Pick<Ctx, "config">, workspaceId: string) => join(rootOf(ctx), workspaceId);
/** Names the format of the blocks in all folders. */
export const FORMAT_FILE = "format";
const aadOf = (workspaceId: string) => `${workspaceId}:prefixes`;

const byWorkspace = preparedRow(prefixStores, eq(prefixStores.workspaceId, sql.placeholder("workspaceId")));
export const find = ({ db }: Pick<Ctx, "db">, workspaceId: string): PrefixStoreRow | undefined =>
  byWorkspace(db, { workspaceId });

export const allStores = ({ db }: Pick<Ctx, "db">): PrefixStoreRow[] => db.select().from(prefixStores).all();

export type OpenStore = { dir: string; key: string };

/** Makes folder and key where there are none. Undefined: nothing is kept, or the disk has no place for the folder. */
export function openStore(ctx: Ctx, workspaceId: string): OpenStore | undefined {
  if (ctx.config.serving.prefix_cache_bytes === 0) return undefined;
  const dir = dirOf(ctx, workspaceId);
  const isFirst = allStores(ctx).length === 0;
  const row = find(ctx, workspaceId) ?? create(ctx, workspaceId);
  if (!row) return undefined;
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const format = join(rootOf(ctx), FORMAT_FILE);
    if (isFirst && !existsSync(format)) writeFileAtomicSync(format, BLOCK_FORMAT);
  } catch (error) {
    ctx.log.warn("prompts are not kept on the disk", { folder: dir, error });
    return undefined;
  }
  return { dir, key: Buffer.from(ctx.secrets.open(row.keySealed, aadOf(workspaceId))).toString("hex") };
}

function create(ctx: Ctx, workspaceId: string): PrefixStoreRow | undefined {
  const keySealed = ctx.secrets.seal(randomBytes(32), aadOf(workspaceId));
  return write(ctx.db, (tx) => {
    if (!workspaces.find({ db: tx }, workspaceId)) return undefined; // a deleted workspace gets no new key
    const values = { workspaceId, keySealed, bytes: 0, createdAt: ctx.clock.now() };
    return tx.insert(prefixStores).values(values).returning().get();
  });
}

/** `bytes` more are in the folder; below 0: less. */
export function addBytes(ctx: Pick<Ctx, "db">, workspaceId: string, bytes: number) {
  if (bytes === 0) return;
  write(ctx.db, (tx) => {
    const sum = sql`max(0, ${prefixStores.bytes} + ${bytes})`;
    tx.update(prefixStores).set({ bytes: sum }).where(eq(prefixStores.workspaceId, workspaceId)).run();
  });
}

/** The folder was looked through. */
export function setBytes(ctx: Pick<Ctx, "db">, workspaceId: string, bytes: number) {
  if (find(ctx, workspaceId)?.bytes === bytes) return;
  write(ctx.db, (tx) => tx.update(prefixStores).set({ bytes }).where(eq(prefixStores.workspaceId, workspaceId)).run());
}

/** Looks through the folders of blocks, and removes the blocks that were used longest ago. */
import { readdir, readFile, rm, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import type { Ctx } from "../../../../context.ts";
import { BLOCK_FORMAT } from "../../../../lib/prefix_blocks.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { HOUR_MS } from "../../../../lib/units.ts";
import { writeFileAtomic } from "../../../../platform/files.ts";
import { counter } from "../../../../platform/metrics.ts";
import { addBytes, allStores, dirOf, FORMAT_FILE, find, rootOf, setBytes } from "./store.ts";

/** `usedAt`: in milliseconds. */
export type BlockFile = { workspaceId: string; path: string; bytes: number; usedAt: number };

const NAME = /^[0-9a-f]{64}$/;
const LEFT_MS = HOUR_MS; // a temporary file is written in seconds

export const evicted = counter(
  "verk_prefix_blocks_evicted_total",
  "Blocks of prompts that were removed for others",
  [],
);

/** The blocks of a workspace. A file that a killed replica left half written is removed. */
export async function blocksOf(ctx: Ctx, workspaceId: string): Promise<BlockFile[]> {
  const dir = dirOf(ctx, workspaceId);
  const turn = takingTurns();
  const blocks: BlockFile[] = [];
  for (const name of await readdir(dir).catch(() => [])) {
    await turn();
    const path = join(dir, name);
    const file = await stat(path).catch(() => undefined); // another server or replica has removed it
    if (file && NAME.test(name)) blocks.push({ workspaceId, path, bytes: file.size, usedAt: file.mtimeMs });
    else if (file && Date.now() - file.mtimeMs > LEFT_MS) await unlink(path).catch(() => {});
  }
  return blocks;
}

/** Removes the blocks that were used longest ago, of one workspace or of all. Returns the bytes that are free now. */
export async function evict(ctx: Ctx, workspaceIds: readonly string[], bytes: number): Promise<number> {
  const blocks: BlockFile[] = [];
  for (const id of workspaceIds) blocks.push(...(await blocksOf(ctx, id)));
  blocks.sort((a, b) => a.usedAt - b.usedAt);
  const turn = takingTurns();
  let freed = 0;
  for (const block of blocks) {
    if (freed >= bytes) break;
    await turn();
    const isGone = await unlink(block.path).then(
      () => true,
      () => false,
    );
    if (!isGone) continue;
    freed += block.bytes;
    addBytes(ctx, block.workspaceId, -block.bytes);
    evicted.add(ctx.db, block.workspaceId, []);
  }
  return freed;
}

/** The loop: counts what is really there, and removes blocks of other formats and the folders of workspaces without a key. */
export async function sweep(ctx: Ctx) {
  await dropOtherFormats(ctx);
  for (const { workspaceId } of allStores(ctx)) {
    const blocks = await blocksOf(ctx, workspaceId);
    setBytes(
      ctx,
      workspaceId,
      blocks.reduce((sum, { bytes }) => sum + bytes, 0),
    );
  }
  for (const name of await readdir(rootOf(ctx)).catch(() => []))
    if (name !== FORMAT_FILE && !find(ctx, name)) await rm(join(rootOf(ctx), name), { recursive: true, force: true });
}

/** After an upgrade to another format: no replica asks for the names of the old blocks any more. */
async function dropOtherFormats(ctx: Ctx) {
  const stores = allStores(ctx);
  const path = join(rootOf(ctx), FORMAT_FILE);
  const format = await readFile(path, "utf8").catch(() => "");
  if (stores.length === 0 || format === BLOCK_FORMAT) return;
  for (const { workspaceId } of stores)
    for (const block of await blocksOf(ctx, workspaceId))
      if (block.usedAt < ctx.state.deployments.prefixesSince) await unlink(block.path).catch(() => {});
  await writeFileAtomic(path, BLOCK_FORMAT).catch(() => {}); // without a folder there are no blocks
}

/** For a workspace that is deleted: its key is gone already. */
export const removeAll = (ctx: Ctx, workspaceId: string) =>
  rm(dirOf(ctx, workspaceId), { recursive: true, force: true });

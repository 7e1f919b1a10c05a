/**
 * Uploaded files: models/.uploads/<upload>.gguf below the data directory. The upload's row owns the file until the
 * model's row does. The GGUF file made of several is named after their group. A file without either row is removed.
 */
import { copyFile, link, mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { and, eq, ne } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { DAY_MS } from "../../../../lib/units.ts";
import type { Db } from "../../../../platform/db/db.ts";
import {
  type Chunks,
  cleanTemp,
  type Meter,
  renameDurably,
  type StreamOptions,
  tempPath,
  type Written,
  writeStreamAtomic,
} from "../../../../platform/files.ts";
import { LostKeyError } from "../../../../platform/storage/storage.ts";
import * as uploads from "../../../data/uploads/service.ts";
import { uploads as uploadTable } from "../../../data/uploads/table.ts";
import { volumeFiles, volumes } from "../../../data/volumes/table.ts";
import { models as table } from "../table.ts";

const DIR = join("models", ".uploads");
const SUFFIX = ".gguf";
const ABANDONED_MS = DAY_MS; // temporary files of a server that was killed

export const pathFor = (uploadId: string) => join(DIR, `${uploadId}${SUFFIX}`);
const full = (ctx: Ctx, path: string) => join(ctx.config.data_dir, path);

/** Writes the stream to the file that the model will use. */
export const into =
  (ctx: Ctx, uploadId: string, meter: Meter) => async (body: Chunks, options: Omit<StreamOptions, "meter">) => {
    await mkdir(full(ctx, DIR), { recursive: true, mode: 0o700 });
    return writeStreamAtomic(full(ctx, pathFor(uploadId)), body, { ...options, meter });
  };

export const remove = (ctx: Ctx, uploadId: string) => rm(full(ctx, pathFor(uploadId)), { force: true });

/** A file below the data directory, or a key of the object storage. */
type Content = { file: string } | { key: string };

/** Content that this workspace has: the file of a model, an upload for a model, or a file of a volume. */
export async function locate(ctx: Ctx, workspaceId: string, sha256: string): Promise<Content | undefined> {
  for (const file of [...modelFiles(ctx.db, workspaceId, sha256), ...sentFiles(ctx.db, workspaceId, sha256)])
    if (await stat(full(ctx, file)).catch(() => undefined)) return { file };
  const kept = ctx.db
    .select({ key: volumeFiles.storageKey })
    .from(volumeFiles)
    .innerJoin(volumes, eq(volumes.id, volumeFiles.volumeId))
    .where(and(eq(volumeFiles.sha256, sha256), eq(volumes.workspaceId, workspaceId)))
    .limit(1)
    .get();
  return kept && { key: kept.key };
}

const modelFiles = (db: Db, workspaceId: string, sha256: string): string[] =>
  db
    .select({ path: table.path })
    .from(table)
    .where(and(eq(table.workspaceId, workspaceId), eq(table.sha256, sha256), eq(table.status, "ready")))
    .all()
    .flatMap(({ path }) => path ?? []);

const sentFiles = (db: Db, workspaceId: string, sha256: string): string[] =>
  db
    .select({ id: uploadTable.id })
    .from(uploadTable)
    .where(
      and(
        eq(uploadTable.workspaceId, workspaceId),
        eq(uploadTable.purpose, "model"),
        eq(uploadTable.status, "used"),
        eq(uploadTable.receivedSha256, sha256),
      ),
    )
    .all()
    .map(({ id }) => pathFor(id));

/** Puts the content where an upload would have put it. A file of this server is linked, not copied. */
type Placing = { sha256: string; meter: Meter };

export async function place(
  ctx: Ctx,
  uploadId: string,
  content: Content,
  { sha256, meter }: Placing,
): Promise<Written> {
  if ("key" in content) {
    const opened = await ctx.storage.get(content.key);
    if (!opened) throw new LostKeyError(content.key);
    return into(ctx, uploadId, meter)(opened.stream, { expectedSha256: sha256 });
  }
  const [from, to] = [full(ctx, content.file), full(ctx, pathFor(uploadId))];
  await mkdir(full(ctx, DIR), { recursive: true, mode: 0o700 });
  const temp = tempPath(full(ctx, DIR));
  try {
    await link(from, temp).catch(async () => {
      meter.take((await stat(from)).size);
      await copyFile(from, temp); // the file system has no hard links
    });
    await renameDurably(temp, to);
  } finally {
    await rm(temp, { force: true });
  }
  return { bytes: (await stat(to)).size, sha256 };
}

/** Removes files that no model uses and no upload will complete. */
export async function removeStray(ctx: Ctx) {
  const names = await readdir(full(ctx, DIR)).catch(() => []);
  for (const name of names.filter((each) => each.endsWith(SUFFIX))) {
    const id = name.slice(0, -SUFFIX.length);
    if (!isNeeded(ctx, id)) await remove(ctx, id);
  }
  if (names.length > 0) await cleanTemp(full(ctx, DIR), ABANDONED_MS, ctx.clock.now());
}

function isNeeded(ctx: Ctx, uploadId: string): boolean {
  if (ctx.state.models.converting.has(uploadId)) return true;
  const named = ctx.db
    .select({ id: table.id })
    .from(table)
    .where(and(eq(table.path, pathFor(uploadId)), ne(table.status, "deleted")))
    .get();
  if (named) return true;
  const upload = uploads.find(ctx, uploadId);
  if (upload?.status !== "receiving" && upload?.status !== "used") return false;
  const model = ctx.db.select().from(table).where(eq(table.id, upload.targetId)).get();
  return model?.status === "pending" || model?.status === "missing";
}

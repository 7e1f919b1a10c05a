/** An artifact as a directory, for whoever runs it. */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Ctx } from "../../context.ts";
import { tempPath, writeTemp } from "../../platform/files.ts";
import { LostKeyError } from "../../platform/storage/storage.ts";
import { type ForeignDir, pathForWorker } from "../../sandbox/files/foreign_dir.ts";
import { inspect } from "./inspect.ts";
import type { CodeArtifactRow } from "./table.ts";

type Into = { dir: ForeignDir; owner: { uid: number; gid: number } | null };

/** `dir` is empty. The archive was checked when it came; it is read in a child process all the same. */
export async function unpack(ctx: Ctx, { storageKey, format }: CodeArtifactRow, { dir, owner }: Into): Promise<void> {
  const into = { dir: pathForWorker(dir), owner };
  const opened = await ctx.storage.get(storageKey);
  if (!opened) throw new LostKeyError(storageKey);
  if (opened.path !== undefined) {
    await opened.stream.cancel();
    await inspect(ctx, { path: opened.path, format, into });
    return;
  }
  const folder = join(ctx.config.data_dir, "tmp");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const path = tempPath(folder);
  try {
    await writeTemp(path, opened.stream);
    await inspect(ctx, { path, format, into });
  } finally {
    await rm(path, { force: true });
  }
}

/** Unpacks an artifact into a directory. */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Ctx } from "../../../context.ts";
import { tempPath, writeTemp } from "../../../platform/files.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import { type ForeignDir, pathForWorker } from "../../../sandbox/files/foreign_dir.ts";
import { spaceMeter } from "../../data/storage_usage/service.ts";
import { inspect } from "./inspect.ts";
import type { CodeArtifactRow } from "./table.ts";

type Target = { dir: ForeignDir; owner: { uid: number; gid: number } | null };

/** `dir` must be empty. The archive was checked at the upload; it is still read only in a child process. */
export async function unpack(ctx: Ctx, artifact: CodeArtifactRow, { dir, owner }: Target): Promise<void> {
  const { workspaceId, storageKey, format, unpackedBytes } = artifact;
  using meter = spaceMeter(ctx);
  meter.take(unpackedBytes); // the child process writes them
  const into = { dir: pathForWorker(dir), owner };
  const opened = await ctx.storage.get(storageKey);
  if (!opened) throw new LostKeyError(storageKey);
  if (opened.file) {
    await opened.stream.cancel();
    await inspect(ctx, workspaceId, { path: await opened.file(), format, into });
    return;
  }
  const folder = join(ctx.config.data_dir, "tmp");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const path = tempPath(folder);
  try {
    using copy = spaceMeter(ctx);
    await writeTemp(path, opened.stream, { meter: copy });
    await inspect(ctx, workspaceId, { path, format, into });
  } finally {
    await rm(path, { force: true });
  }
}

type FromNode = Target & { path: string; limits: { entries: number; bytes: number } };

/** The same for an archive that a node made of a job's files. */
export async function unpackFromNode(ctx: Ctx, workspaceId: string, { path, dir, owner, limits }: FromNode) {
  const into = { dir: pathForWorker(dir), owner };
  await inspect(ctx, workspaceId, { path, format: "tar", into, limits });
}

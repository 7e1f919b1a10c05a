/** A Hugging Face folder or a split file in the models folder: one GGUF file is written beside it, and the row follows it. */
import { mkdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { durable, write } from "../../../../platform/db/db.ts";
import { renameDurably } from "../../../../platform/files.ts";
import { spaceMeter } from "../../../data/storage_usage/service.ts";
import { machine } from "../machine.ts";
import * as models from "../service.ts";
import { type ModelRow, models as table } from "../table.ts";
import type { Checkpoint } from "./checkpoint.ts";
import { converted } from "./convert.ts";

export type ConvertibleFolder = { name: string; path: string; size: number; mtimeMs: number; checkpoint: Checkpoint };

const PROGRESS_STEP = 0.05; // each step is a write to the database

export async function registerConverted(ctx: Ctx, folder: ConvertibleFolder, existing?: ModelRow) {
  const { name, checkpoint } = folder;
  const path = `${folder.path}.gguf`;
  const id = write(ctx.db, (tx) => {
    const now = ctx.clock.now();
    if (!existing) return models.add(tx, { workspaceId: null, name, source: "folder", path }, now).id;
    transition(tx, machine, "recheck", { id: existing.id, now }, { path, sha256: null, error: null });
    return existing.id;
  });
  await durable(ctx.db);
  let saved = 0;
  const onProgress = (progress: number) => {
    if (progress - saved < PROGRESS_STEP) return;
    saved = progress;
    write(ctx.db, (tx) => tx.update(table).set({ progress }).where(eq(table.id, id)).run());
  };
  const deps = { supervisor: ctx.supervisor, dataDir: ctx.config.data_dir };
  using meter = spaceMeter(ctx);
  await converted(deps, { checkpoint, name, onProgress, signal: ctx.closing, meter }, async (result) => {
    if (!result.ok) {
      ctx.log.warn("a model could not be converted", { model: id, error: result.error });
      if (!result.broken) refuse(ctx, id, folder, result.error); // otherwise the next scan tries again
      return;
    }
    const full = join(ctx.config.data_dir, path);
    await mkdir(dirname(full), { recursive: true, mode: 0o700 });
    await renameDurably(result.path, full);
    const fileMtimeMs = Math.floor((await stat(full)).mtimeMs);
    const { shape, sizeBytes, sha256 } = result;
    write(ctx.db, (tx) => models.accept(tx, id, { shape, sizeBytes, sha256, fileMtimeMs, path }, ctx.clock.now()));
  });
  await durable(ctx.db);
}

/** The size and time of the folder show that it has not changed since. */
function refuse(ctx: Ctx, id: string, { size, mtimeMs, path }: ConvertibleFolder, error: string) {
  write(ctx.db, (tx) => {
    tx.update(table)
      .set({ fileMtimeMs: Math.floor(mtimeMs), sizeBytes: size, path })
      .where(eq(table.id, id))
      .run();
    models.refuse(tx, id, error, ctx.clock.now());
  });
}

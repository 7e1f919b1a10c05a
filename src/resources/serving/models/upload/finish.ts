/** Makes a model of its uploaded files: one GGUF file is checked, several files are converted to one. */
import { mkdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { durable, write } from "../../../../platform/db/db.ts";
import { renameDurably, type Written } from "../../../../platform/files.ts";
import { spaceMeter } from "../../../data/storage_usage/service.ts";
import type { UploadRow } from "../../../data/uploads/table.ts";
import { converted } from "../files/convert.ts";
import { inspect } from "../files/inspect.ts";
import * as models from "../service.ts";
import { type ModelRow, models as table } from "../table.ts";
import * as files from "./files.ts";

export type SentFile = Written & { upload: UploadRow };

const PROGRESS_STEP = 0.05; // each step is a write to the database

export async function finishFile(ctx: Ctx, model: ModelRow, sent: SentFile): Promise<ModelRow> {
  const { upload, bytes, sha256 } = sent;
  const path = files.pathFor(upload.id);
  const full = join(ctx.config.data_dir, path);
  const inspection = await inspect(ctx, full, { workspaceId: model.workspaceId ?? "", hash: false });
  if (!inspection.ok && inspection.broken) throw new AppError("worker_failed", `${inspection.error}: try again`);
  if (!inspection.ok) throw await refuse(ctx, model, [sent], `${upload.path} cannot be used: ${inspection.error}`);
  const fileMtimeMs = Math.floor((await stat(full)).mtimeMs);
  return accept(ctx, model, { shape: inspection.shape, sizeBytes: bytes, sha256, fileMtimeMs, path });
}

/** The new file is named after the group of uploads. The uploaded files are removed. */
export async function finishFiles(ctx: Ctx, model: ModelRow, groupId: string, sent: SentFile[]): Promise<ModelRow> {
  const { converting } = ctx.state.models;
  if (converting.has(groupId))
    throw new AppError("unsupported_state", `Model ${model.name} is being converted: wait for it`, { param: "id" });
  converting.add(groupId);
  try {
    return await convertAll(ctx, model, groupId, sent);
  } finally {
    converting.delete(groupId);
  }
}

async function convertAll(ctx: Ctx, model: ModelRow, groupId: string, sent: SentFile[]): Promise<ModelRow> {
  const dataDir = ctx.config.data_dir;
  const named = Object.fromEntries(
    sent.map(({ upload }) => [upload.path, join(dataDir, files.pathFor(upload.id))] as const),
  );
  let saved = 0;
  const onProgress = (progress: number) => {
    if (progress - saved < PROGRESS_STEP) return;
    saved = progress;
    write(ctx.db, (tx) => tx.update(table).set({ progress }).where(eq(table.id, model.id)).run());
  };
  const checkpoint = { dir: model.name, files: named };
  using meter = spaceMeter(ctx); // the files that were sent count for the quota
  const wanted = { checkpoint, name: model.name, onProgress, signal: ctx.closing, meter };
  return await converted({ supervisor: ctx.supervisor, dataDir }, wanted, async (result) => {
    if (!result.ok && result.broken) throw new AppError("worker_failed", `${result.error}: try again`);
    if (!result.ok) throw await refuse(ctx, model, sent, `The files cannot be used: ${result.error}`);
    const path = files.pathFor(groupId);
    const full = join(dataDir, path);
    await mkdir(dirname(full), { recursive: true, mode: 0o700 });
    await renameDurably(result.path, full);
    const fileMtimeMs = Math.floor((await stat(full)).mtimeMs);
    const { shape, sizeBytes, sha256 } = result;
    const row = accept(ctx, model, { shape, sizeBytes, sha256, fileMtimeMs, path });
    await durable(ctx.db);
    for (const { upload } of sent) await files.remove(ctx, upload.id);
    return row;
  });
}

const accept = (ctx: Ctx, { id }: ModelRow, seen: models.Inspected & { path: string }): ModelRow =>
  write(ctx.db, (tx) => models.accept(tx, id, seen, ctx.clock.now())) ??
  (ctx.db.select().from(table).where(eq(table.id, id)).get() as ModelRow); // rows are never removed

/** The files go, and the row keeps the reason. */
async function refuse(ctx: Ctx, { id }: ModelRow, sent: readonly SentFile[], error: string): Promise<AppError> {
  write(ctx.db, (tx) => {
    models.refuse(tx, id, error, ctx.clock.now());
    for (const { bytes } of sent) models.addBytes(tx, id, -bytes);
  });
  await durable(ctx.db);
  for (const { upload } of sent) await files.remove(ctx, upload.id);
  return unusable(error);
}

export const unusable = (error: string) => new AppError("schema", error, { param: "/files/0/path" });

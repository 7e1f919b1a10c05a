/** Imports a file of this machine into the models folder. The file gets its name only when it is complete. */
import { constants } from "node:fs";
import { copyFile, type FileHandle, lstat, mkdir, open, readdir, rename, rm, stat, statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { and, eq, isNull } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { formatBytes } from "../../../../lib/bytes.ts";
import { AppError } from "../../../../lib/errors.ts";
import { describeServed } from "../../../../lib/gguf/describe.ts";
import { incompleteFolder, isHuggingFaceFolder } from "../../../../lib/gguf/other_formats.ts";
import { GgufError } from "../../../../lib/gguf/parse.ts";
import { readHeader } from "../../../../lib/gguf/read.ts";
import { durable, write } from "../../../../platform/db/db.ts";
import { asStorageError, errorCode, readInto, renameDurably, syncDir, tempPath } from "../../../../platform/files.ts";
import type { ModelShape } from "../../../../workers/protocol.ts";
import { BUILTIN_NAME } from "../builtin.ts";
import { INSTALLATION, machine } from "../machine.ts";
import * as models from "../service.ts";
import { type ModelRow, models as table } from "../table.ts";
import { FOLDER, HUB } from "./folder.ts";

const COPY_BYTES = 8 * 2 ** 20;
const NAME = /^[A-Za-z0-9][\w.-]{0,99}(\/[A-Za-z0-9][\w.-]{0,99})?$/;

/** `sha256`: known if the file was written a moment ago. */
export type Source = { path: string; handle: FileHandle; size: number; shape: ModelShape; sha256?: string };
type Bytes = Pick<Source, "path" | "handle" | "size">;
export type Placing = {
  name: string;
  /** Move the file instead of copying it, if that is possible. */
  move?: boolean;
  replace?: boolean;
  onProgress?: (fraction: number) => void;
};
export type ImportedFile = {
  name: string;
  path: string;
  sizeBytes: number;
  sha256: string | null;
  fileMtimeMs: number;
};

const refuse = (message: string, cause?: unknown) => new AppError("invalid_request", message, { cause });

/** Opens the file and reads its header. Throws if it is no usable model. The caller closes the handle. */
export async function openSource(path: string): Promise<Source> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error) => {
    throw refuse(
      `${path}: ${errorCode(error) === "ENOENT" ? "there is no such file" : (error as Error).message}`,
      error,
    );
  });
  try {
    const stats = await handle.stat();
    if (stats.isDirectory()) throw refuse(await folderRefusal(path));
    if (!stats.isFile()) throw refuse(`${path} is not a file`);
    const header = await readHeader((into, at) => readInto(handle, into, at), stats.size);
    return { path, handle, size: stats.size, shape: describeServed(header) };
  } catch (error) {
    await handle.close();
    throw error instanceof GgufError ? refuse(`${path}: ${error.message}`, error) : error;
  }
}

async function folderRefusal(path: string): Promise<string> {
  const files = await readdir(path);
  if (isHuggingFaceFolder(files)) return incompleteFolder(path, files);
  const model = files.find((name) => /\.gguf$/i.test(name));
  return `${path} is a folder without a model: import a GGUF file, or a Hugging Face folder with config.json and safetensors${model === undefined ? "" : `, such as ${join(path, model)}`}`;
}

/** The given name, or the name of the file. */
export function nameFor(path: string, chosen: string | undefined): string {
  const name = chosen ?? basename(path).replace(/\.gguf$/i, "");
  const cannot = `${JSON.stringify(name)} cannot be a model's name`;
  if (name.split("/")[0] === HUB) throw refuse(`${cannot}: the folder ${HUB} is reserved for downloads from the hub`);
  if (!NAME.test(name))
    throw refuse(`${cannot}: use letters, digits, dots, dashes and underscores, and at most one slash`);
  if (name === BUILTIN_NAME) throw new AppError("name_taken", `${name} is the built-in model: choose another name`);
  return name;
}

export const targetOf = (name: string) => join(FOLDER, `${name}.gguf`);

/** Throws if the models folder has a file of this name. */
export async function requireFree(dataDir: string, { name, replace }: Pick<Placing, "name" | "replace">) {
  if (!replace && (await stat(join(dataDir, targetOf(name))).catch(() => undefined)))
    throw new AppError("name_taken", `A model named ${name} exists: choose another name, or replace it`);
}

/** Copies, clones or moves the file into the models folder. */
export async function place(dataDir: string, source: Source, placing: Placing): Promise<ImportedFile> {
  const path = targetOf(placing.name);
  const target = join(dataDir, path);
  await requireFree(dataDir, placing);
  try {
    await mkdir(dirname(target), { recursive: true, mode: 0o700 });
    const moved = placing.move === true && (await moveTo(source, target));
    const sha256 = moved ? (source.sha256 ?? null) : await copyTo(dataDir, source, target, placing);
    if (placing.move && !moved) await rm(source.path, { force: true }).catch(() => {}); // without permission to remove it, the copy is enough
    const { mtimeMs, size } = await stat(target);
    return { name: placing.name, path, sizeBytes: size, sha256, fileMtimeMs: Math.floor(mtimeMs) };
  } catch (error) {
    throw asStorageError(target, "write", error);
  }
}

/** False if the source is on another file system, may not be moved, or is a link, which may break. */
async function moveTo(source: Source, target: string): Promise<boolean> {
  try {
    if ((await lstat(source.path)).isSymbolicLink()) return false;
    await rename(source.path, target);
    await syncDir(dirname(target));
    return true;
  } catch (error) {
    if (["EXDEV", "EACCES", "EPERM"].includes(errorCode(error) ?? "")) return false;
    throw error;
  }
}

/** Returns the sha256 if the bytes were read; a clone does not read them. */
export async function copyTo(
  dataDir: string,
  source: Bytes,
  target: string,
  { onProgress }: Placing,
): Promise<string | null> {
  const temp = tempPath(join(dataDir, FOLDER));
  try {
    const cloned = await copyFile(source.path, temp, constants.COPYFILE_FICLONE_FORCE).then(
      () => true,
      () => false, // a file system without clones, or a source that only root may open
    );
    if (!cloned) await rm(temp, { force: true });
    const sha256 = cloned ? null : await copyBytes(dataDir, source, temp, onProgress);
    if (cloned) await flush(temp);
    await renameDurably(temp, target);
    return sha256;
  } catch (error) {
    await rm(temp, { force: true });
    throw error;
  }
}

async function copyBytes(dataDir: string, source: Bytes, temp: string, onProgress: Placing["onProgress"]) {
  const { bavail, bsize } = await statfs(dataDir);
  if (bavail * bsize < source.size)
    throw refuse(
      `${source.path} needs ${formatBytes(source.size)}, and ${formatBytes(bavail * bsize)} are free in ${dataDir}`,
    );
  const hasher = new Bun.CryptoHasher("sha256");
  const buffer = new Uint8Array(Math.min(COPY_BYTES, source.size));
  const out = await open(temp, "wx", 0o600);
  try {
    for (let at = 0; at < source.size; ) {
      const { bytesRead } = await source.handle.read(buffer, 0, buffer.byteLength, at);
      if (bytesRead === 0) throw refuse(`${source.path} became shorter during the copy`);
      hasher.update(buffer.subarray(0, bytesRead));
      for (let done = 0; done < bytesRead; ) done += (await out.write(buffer, done, bytesRead - done)).bytesWritten;
      at += bytesRead;
      onProgress?.(at / source.size);
    }
    await out.sync();
  } finally {
    await out.close();
  }
  return hasher.digest("hex");
}

async function flush(path: string) {
  const handle = await open(path, "r+");
  await handle.sync().finally(() => handle.close());
}

/** Writes the row of a file whose header the caller has read. Also works beside a running server. */
export function registerChecked(ctx: Ctx, imported: ImportedFile, shape: ModelShape, base?: ModelRow): ModelRow {
  const { name, ...file } = imported;
  const now = ctx.clock.now();
  const of = base && { baseModel: base.name, baseModelId: base.id };
  return write(ctx.db, (tx) => {
    const existing = tx
      .select()
      .from(table)
      .where(and(isNull(table.workspaceId), eq(table.name, name)))
      .get();
    const { id } =
      existing ?? models.add(tx, { workspaceId: null, name, source: "folder", path: file.path, ...of }, now);
    if (existing) transition(tx, machine, "recheck", { id, now }, { path: file.path, ...of });
    return models.accept(tx, id, { ...file, shape }, now) ?? (existing as ModelRow); // pending always becomes ready
  });
}

/**
 * The base model of an adapter: the given one, or the only one that fits. Undefined: none or several fit. Throws if the
 * given one is not there or does not fit.
 */
export function baseFor(ctx: Ctx, workspaceId: string, shape: ModelShape, baseName?: string): ModelRow | undefined {
  if (shape.type !== "adapter") {
    if (baseName !== undefined) throw refuse("--base: this file is a whole model, not an adapter. Remove the flag");
    return undefined;
  }
  const fitting = models.fittingBases(ctx, workspaceId, shape);
  if (baseName === undefined) return fitting.length === 1 ? fitting[0] : undefined;
  const base = models.find(ctx, workspaceId, baseName);
  if (!base)
    throw refuse(`--base: there is no model ${JSON.stringify(baseName)}. \`verk models list\` shows the models`);
  if (!fitting.some(({ id }) => id === base.id))
    throw refuse(
      `--base: the adapter is for ${shape.architecture} models with ${shape.layers} layers and does not fit ${base.name}`,
    );
  return base;
}

/** For code inside the server. The command line calls the steps itself. */
export async function importFile(ctx: Ctx, path: string, name?: string): Promise<ModelRow> {
  const source = await openSource(path);
  try {
    const imported = await place(ctx.config.data_dir, source, { name: nameFor(path, name) });
    const row = registerChecked(ctx, imported, source.shape, baseFor(ctx, INSTALLATION, source.shape));
    await durable(ctx.db);
    return row;
  } finally {
    await source.handle.close();
  }
}

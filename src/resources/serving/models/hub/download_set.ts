/**
 * Downloads several files of the hub and makes one GGUF file of them. They lie in models/.downloads in a folder named by
 * their contents, so a restart continues. The folder is removed when the GGUF file has its name.
 */
import { mkdir, rm, stat } from "node:fs/promises";
import { dirname, join, posix } from "node:path";
import type { Ctx } from "../../../../context.ts";
import { isSafetensors } from "../../../../lib/gguf/other_formats.ts";
import { splitOf } from "../../../../lib/gguf/parts.ts";
import { asStorageError, renameDurably, sha256Bytes } from "../../../../platform/files.ts";
import { spaceMeter } from "../../../data/storage_usage/service.ts";
import { converted, refusalOf } from "../files/convert.ts";
import { FOLDER, HUB } from "../files/folder.ts";
import { hashFile, inspect } from "../files/inspect.ts";
import { PARTS } from "../files/sweep.ts";
import type { Choice } from "./choose.ts";
import { type Fetched, fill, requireSpace, type Watch } from "./download.ts";
import { HubError, type HubFile } from "./hub.ts";

export type HubSet = {
  workspaceId: string;
  repo: string;
  choice: Choice;
  /** Folder of the received files. */
  part: string;
  /** The GGUF file, below the data directory. Its name tells the contents of the files that it was made of. */
  target: string;
};

const DOWNLOAD_SHARE = 0.8; // of the progress; the rest is the conversion

export function setOf(ctx: Ctx, workspaceId: string, repo: string, choice: Choice): HubSet {
  const contents = choice.files.map(({ path, size, sha256, blobId }) => [path, size, sha256 ?? blobId ?? null]);
  const key = sha256Bytes(JSON.stringify([repo, contents]));
  const stem = splitOf(posix.basename(choice.main))?.stem ?? posix.basename(repo);
  const name = [stem, choice.quantize, key.slice(0, 12)].filter((each) => each !== undefined).join("-");
  const target = join(FOLDER, HUB, repo, `${name}.gguf`);
  return { workspaceId, repo, choice, part: join(ctx.config.data_dir, PARTS, `${key}.set`), target };
}

/** The file was made for another workspace, or before a crash. */
export async function madeBefore(ctx: Ctx, { workspaceId, target }: HubSet): Promise<Fetched | undefined> {
  const path = join(ctx.config.data_dir, target);
  const stats = await stat(path).catch(() => undefined);
  if (!stats) return undefined;
  const inspection = await inspect(ctx, path, { workspaceId, hash: true });
  if (!inspection.ok || inspection.sha256 === null) return undefined; // a damaged file is made again
  const { shape, sizeBytes, sha256 } = inspection;
  return { shape, sizeBytes, sha256, fileMtimeMs: Math.floor(stats.mtimeMs) };
}

export async function downloadSet(ctx: Ctx, set: HubSet, watch: Watch): Promise<Fetched> {
  const { repo, choice, part } = set;
  try {
    await mkdir(part, { recursive: true, mode: 0o700 });
    const files = await fetchAll(ctx, set, watch);
    const fetched = await convertSet(ctx, set, files, watch);
    await rm(part, { recursive: true, force: true });
    return fetched;
  } catch (error) {
    const isDamaged = error instanceof Unusable;
    if (isDamaged) await rm(part, { recursive: true, force: true });
    throw isDamaged
      ? new HubError(`${choice.main} of ${repo} cannot be used: ${error.message}`, false)
      : asStorageError(part, "write", error);
  }
}

class Unusable extends Error {}

/** Name → path of every file, each checked against its size and its hash. */
async function fetchAll(
  ctx: Ctx,
  { workspaceId, repo, choice, part }: HubSet,
  watch: Watch,
): Promise<Record<string, string>> {
  const { files, size: total } = choice;
  const paths: Record<string, string> = {};
  const sizeHere = async (path: string) => (await stat(path).catch(() => undefined))?.size ?? 0;
  let done = 0;
  let isChecked = choice.kind !== "folder";
  for (const file of files) {
    if (!isChecked && isSafetensors(file.path)) {
      await requireConvertible(ctx, part, paths, watch.signal);
      isChecked = true;
    }
    const name = choice.kind === "folder" ? file.path : posix.basename(file.path);
    const path = join(part, name.replaceAll("/", "+"));
    paths[name] = path;
    if ((await sizeHere(path)) !== file.size) {
      const onProgress = (fraction: number) =>
        watch.onProgress((DOWNLOAD_SHARE * (done + fraction * file.size)) / total);
      const rest = total - done - (await sizeHere(`${path}.part`));
      await requireSpace(ctx, `${repo} with its conversion`, rest + total);
      await fill(ctx, `${path}.part`, { repo, file }, { ...watch, onProgress });
      await verify(ctx, workspaceId, `${path}.part`, file);
      await renameDurably(`${path}.part`, path);
    }
    done += file.size;
  }
  return paths;
}

/** Before the large files are downloaded. */
async function requireConvertible(ctx: Ctx, dir: string, files: Record<string, string>, signal: AbortSignal) {
  const deps = { supervisor: ctx.supervisor, dataDir: ctx.config.data_dir };
  const refusal = await refusalOf(deps, { dir, files }, signal);
  if (refusal) throw refusal.broken ? new HubError(refusal.error, true) : new Unusable(refusal.error);
}

/** A damaged file is removed, so that the next attempt starts afresh. */
async function verify(ctx: Ctx, workspaceId: string, path: string, file: HubFile) {
  if (file.sha256 === null) return;
  const hashed = await hashFile(ctx, workspaceId, path);
  if (!hashed.ok) throw new HubError(hashed.error, true);
  if (hashed.sha256 === file.sha256) return;
  await rm(path, { force: true });
  throw new HubError(`${file.path} is damaged: its sha256 is not ${file.sha256}, which the hub lists`, true);
}

async function convertSet(ctx: Ctx, set: HubSet, files: Record<string, string>, watch: Watch): Promise<Fetched> {
  const { repo, choice, part, target } = set;
  const deps = { supervisor: ctx.supervisor, dataDir: ctx.config.data_dir };
  const onProgress = (fraction: number) => watch.onProgress(DOWNLOAD_SHARE + (1 - DOWNLOAD_SHARE) * fraction);
  const wanted = { checkpoint: { dir: part, files }, name: posix.basename(repo), quantize: choice.quantize };
  using meter = spaceMeter(ctx);
  return await converted(deps, { ...wanted, onProgress, signal: watch.signal, meter }, async (result) => {
    if (!result.ok) throw result.broken ? new HubError(result.error, true) : new Unusable(result.error);
    const { path, shape, sizeBytes, sha256 } = result;
    const full = join(ctx.config.data_dir, target);
    await mkdir(dirname(full), { recursive: true, mode: 0o700 });
    await renameDurably(path, full);
    return { shape, sizeBytes, sha256, fileMtimeMs: Math.floor((await stat(full)).mtimeMs) };
  });
}

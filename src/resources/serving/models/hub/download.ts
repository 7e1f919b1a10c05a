/**
 * Downloads one file of the hub. The received part lies in models/.downloads under the file's hash, so a restart
 * continues it. The file gets its name only when its hash and its header are right.
 */
import { mkdir, open, rm, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Ctx } from "../../../../context.ts";
import { formatBytes } from "../../../../lib/bytes.ts";
import { MIB } from "../../../../lib/units.ts";
import { asStorageError, renameDurably, sha256Bytes } from "../../../../platform/files.ts";
import type { ModelShape } from "../../../../workers/protocol.ts";
import { spaceMeter } from "../../../data/storage_usage/service.ts";
import { inspect } from "../files/inspect.ts";
import { PARTS } from "../files/sweep.ts";
import { fileUrl, get, HubError, type HubFile, type HubResponse, refusal } from "./hub.ts";

const FIRST_CHUNK_BYTES = 4 * MIB; // of one request: a broken connection loses at most this
const LAST_CHUNK_BYTES = 32 * MIB;
const QUICK_MS = 2_000; // after a faster request the next one is larger
const CHUNK_MS = 180_000;
const SPARE_BYTES = 256 * MIB; // stays free for the database and other writers

export type HubDownload = { workspaceId: string; repo: string; file: HubFile; target: string };
export type Fetched = { shape: ModelShape; sizeBytes: number; sha256: string; fileMtimeMs: number };
export type Watch = { signal: AbortSignal; token: string | undefined; onProgress: (fraction: number) => void };

export const partPath = (ctx: Ctx, { repo, file }: Pick<HubDownload, "repo" | "file">) =>
  join(ctx.config.data_dir, PARTS, `${file.sha256 ?? sha256Bytes(`${repo}/${file.path}:${file.size}`)}.part`);

export async function download(ctx: Ctx, task: HubDownload, watch: Watch): Promise<Fetched> {
  const part = partPath(ctx, task);
  const target = join(ctx.config.data_dir, task.target);
  try {
    await mkdir(dirname(part), { recursive: true, mode: 0o700 });
    await mkdir(dirname(target), { recursive: true, mode: 0o700 });
    await fill(ctx, part, task, watch);
    const fetched = await check(ctx, part, task);
    await renameDurably(part, target);
    return { ...fetched, fileMtimeMs: Math.floor((await stat(target)).mtimeMs) };
  } catch (error) {
    throw asStorageError(part, "write", error);
  }
}

/** Receives the file into `part`, from where an earlier attempt stopped. */
export async function fill(ctx: Ctx, part: string, { repo, file }: Pick<HubDownload, "repo" | "file">, watch: Watch) {
  const { signal, onProgress } = watch;
  using meter = spaceMeter(ctx); // the row of the model counts the size for the quota
  const handle = await open(part, "a+", 0o600);
  try {
    let { size: at } = await handle.stat();
    if (at > file.size || file.sha256 === null) {
      await handle.truncate(0); // without a hash the part may belong to another file
      at = 0;
    }
    await requireSpace(ctx, file.path, file.size - at);
    const source = rangesOf(ctx, repo, file, watch);
    while (at < file.size) {
      onProgress(at / file.size);
      const chunk = await source(at);
      meter.take(chunk.byteLength);
      await handle.appendFile(chunk);
      at += chunk.byteLength;
      signal.throwIfAborted();
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Requests one range after another. The target of a redirect is used until it no longer answers. */
function rangesOf(ctx: Ctx, repo: string, file: HubFile, { signal, token }: Watch) {
  const first = fileUrl(ctx, repo, file.path);
  let url = first;
  let length = FIRST_CHUNK_BYTES;
  return async (at: number): Promise<Uint8Array> => {
    const startedAt = performance.now();
    const last = Math.min(at + length, file.size) - 1;
    const options = { range: `bytes=${at}-${last}`, timeoutMs: CHUNK_MS, maxBytes: length, signal, token };
    let answer = await get(ctx, url, options);
    if (url !== first && ![200, 206].includes(answer.status)) answer = await get(ctx, first, options); // the address had expired
    url = answer.url;
    if (performance.now() - startedAt < QUICK_MS) length = Math.min(length * 2, LAST_CHUNK_BYTES);
    return bodyOf(answer, { repo, file, at, last });
  };
}

type Range = { repo: string; file: HubFile; at: number; last: number };

function bodyOf(answer: HubResponse, { repo, file, at, last }: Range): Uint8Array {
  const what = `${file.path} of ${repo}`;
  const whole = at === 0 && last === file.size - 1;
  if (answer.status !== 206 && !(answer.status === 200 && whole)) {
    if (answer.status === 200) throw new HubError(`The hub does not support range requests for ${what}`, false);
    throw refusal(what, answer);
  }
  const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(answer.headers.get("content-range") ?? "");
  if (answer.status === 206 && (Number(range?.[1]) !== at || (range?.[2] !== "*" && Number(range?.[2]) !== file.size)))
    throw new HubError(`The hub sent another range of ${what} than requested`, true);
  if (answer.truncated || answer.body.byteLength > last - at + 1 || answer.body.byteLength === 0)
    throw new HubError(`The hub sent ${answer.body.byteLength} bytes of ${what} instead of ${last - at + 1}`, true);
  return answer.body;
}

export async function requireSpace(ctx: Ctx, what: string, bytes: number) {
  const { bavail, bsize } = await statfs(ctx.config.data_dir);
  const spare = Math.max(SPARE_BYTES, ctx.config.storage.min_free_bytes);
  if (bavail * bsize >= bytes + spare) return;
  throw new HubError(
    `${what} needs ${formatBytes(bytes + spare)} of disk space, and ${formatBytes(bavail * bsize)} are free: free some space or move data_dir`,
    false,
  );
}

/** A part that is damaged or no model is removed, so that the next attempt starts afresh. */
async function check(
  ctx: Ctx,
  part: string,
  { workspaceId, file }: HubDownload,
): Promise<Omit<Fetched, "fileMtimeMs">> {
  try {
    const checked = await checkWhole(ctx, part, { workspaceId, file });
    if (checked) return checked;
  } catch (error) {
    if (error instanceof HubError && !error.passing) await rm(part, { force: true });
    throw error;
  }
  await rm(part, { force: true });
  throw new HubError(`${file.path} is damaged: its sha256 is not ${file.sha256}, which the hub lists`, true);
}

/** Undefined: it is not the hub's file. */
export async function checkWhole(
  ctx: Ctx,
  path: string,
  { workspaceId, file }: Pick<HubDownload, "workspaceId" | "file">,
) {
  const inspection = await inspect(ctx, path, { workspaceId, hash: true });
  if (!inspection.ok)
    throw new HubError(
      inspection.broken ? inspection.error : `${file.path} cannot be used: ${inspection.error}`,
      inspection.broken,
    );
  const { shape, sizeBytes, sha256 } = inspection;
  return sha256 !== null && (file.sha256 ?? sha256) === sha256 ? { shape, sizeBytes, sha256 } : undefined;
}

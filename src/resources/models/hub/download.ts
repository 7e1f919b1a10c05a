/**
 * One file from the hub to the disk. The part that is here lies in models/.downloads under the file's hash, so a
 * restart goes on where it was; the file gets its name only when its hash and its header are right.
 */
import { mkdir, open, rm, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Ctx } from "../../../context.ts";
import { formatBytes } from "../../../lib/bytes.ts";
import { asStorageError, renameDurably, sha256Bytes } from "../../../platform/files.ts";
import type { ModelShape } from "../../../workers/protocol.ts";
import { inspect } from "../files/inspect.ts";
import { PARTS } from "../files/sweep.ts";
import { fileUrl, type Got, get, HubError, type HubFile, refusal } from "./hub.ts";

const FIRST_CHUNK_BYTES = 4 * 2 ** 20; // of one request: what a broken connection costs at most
const LAST_CHUNK_BYTES = 32 * 2 ** 20;
const QUICK_MS = 2_000; // a request that is over sooner may ask for more the next time
const CHUNK_MS = 180_000;
const SPARE_BYTES = 256 * 2 ** 20; // for the database and everybody else

export type Wanted = { repo: string; file: HubFile; target: string };
export type Fetched = { shape: ModelShape; sizeBytes: number; sha256: string; fileMtimeMs: number };
export type Watch = { signal: AbortSignal; token: string | undefined; onProgress: (fraction: number) => void };

export const partPath = (ctx: Ctx, { repo, file }: Pick<Wanted, "repo" | "file">) =>
  join(ctx.config.data_dir, PARTS, `${file.sha256 ?? sha256Bytes(`${repo}/${file.path}:${file.size}`)}.part`);

export async function download(ctx: Ctx, wanted: Wanted, watch: Watch): Promise<Fetched> {
  const part = partPath(ctx, wanted);
  const target = join(ctx.config.data_dir, wanted.target);
  try {
    await mkdir(dirname(part), { recursive: true, mode: 0o700 });
    await mkdir(dirname(target), { recursive: true, mode: 0o700 });
    await fill(ctx, part, wanted, watch);
    const fetched = await check(ctx, part, wanted);
    await renameDurably(part, target);
    return { ...fetched, fileMtimeMs: Math.floor((await stat(target)).mtimeMs) };
  } catch (error) {
    throw asStorageError(part, "write", error);
  }
}

async function fill(ctx: Ctx, part: string, { repo, file }: Wanted, watch: Watch) {
  const { signal, onProgress } = watch;
  const handle = await open(part, "a+", 0o600);
  try {
    let { size: at } = await handle.stat();
    if (at > file.size || file.sha256 === null) {
      await handle.truncate(0); // without a hash nobody knows whose beginning this is
      at = 0;
    }
    await requireSpace(ctx, file, file.size - at);
    const source = rangesOf(ctx, repo, file, watch);
    while (at < file.size) {
      onProgress(at / file.size);
      const chunk = await source(at);
      await handle.appendFile(chunk);
      at += chunk.byteLength;
      signal.throwIfAborted();
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Asks for one range after another; the place a redirect led to is kept until it no longer answers. */
function rangesOf(ctx: Ctx, repo: string, file: HubFile, { signal, token }: Watch) {
  const first = fileUrl(ctx, repo, file.path);
  let url = first;
  let length = FIRST_CHUNK_BYTES;
  return async (at: number): Promise<Uint8Array> => {
    const startedAt = performance.now();
    const last = Math.min(at + length, file.size) - 1;
    const asked = { range: `bytes=${at}-${last}`, timeoutMs: CHUNK_MS, maxBytes: length, signal, token };
    let answer = await get(ctx, url, asked);
    if (url !== first && ![200, 206].includes(answer.status)) answer = await get(ctx, first, asked); // it had expired
    url = answer.url;
    if (performance.now() - startedAt < QUICK_MS) length = Math.min(length * 2, LAST_CHUNK_BYTES);
    return bodyOf(answer, { repo, file, at, last });
  };
}

type Range = { repo: string; file: HubFile; at: number; last: number };

function bodyOf(answer: Got, { repo, file, at, last }: Range): Uint8Array {
  const what = `${file.path} of ${repo}`;
  const whole = at === 0 && last === file.size - 1;
  if (answer.status !== 206 && !(answer.status === 200 && whole)) {
    if (answer.status === 200) throw new HubError(`The hub does not send parts of ${what}`, false);
    throw refusal(what, answer);
  }
  const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(answer.headers.get("content-range") ?? "");
  if (answer.status === 206 && (Number(range?.[1]) !== at || (range?.[2] !== "*" && Number(range?.[2]) !== file.size)))
    throw new HubError(`The hub sent another part of ${what} than it was asked for`, true);
  if (answer.truncated || answer.body.byteLength > last - at + 1 || answer.body.byteLength === 0)
    throw new HubError(`The hub sent ${answer.body.byteLength} bytes of ${what} instead of ${last - at + 1}`, true);
  return answer.body;
}

async function requireSpace(ctx: Ctx, file: HubFile, bytes: number) {
  const { bavail, bsize } = await statfs(ctx.config.data_dir);
  const spare = Math.max(SPARE_BYTES, ctx.config.storage.min_free_bytes);
  if (bavail * bsize >= bytes + spare) return;
  throw new HubError(
    `${file.path} needs ${formatBytes(bytes + spare)} of disk, ${formatBytes(bavail * bsize)} are free: make room or move data_dir`,
    false,
  );
}

/** What is wrong is thrown away: going on from it would never end well. */
async function check(ctx: Ctx, part: string, { file }: Wanted): Promise<Omit<Fetched, "fileMtimeMs">> {
  try {
    const found = await checkWhole(ctx, part, file);
    if (found) return found;
  } catch (error) {
    if (error instanceof HubError && !error.passing) await rm(part, { force: true });
    throw error;
  }
  await rm(part, { force: true });
  throw new HubError(`${file.path} arrived damaged: its sha256 is not ${file.sha256}, as the hub says`, true);
}

/** Undefined when it is another file than the hub's. */
export async function checkWhole(ctx: Ctx, path: string, file: HubFile) {
  const found = await inspect(ctx, path, { hash: true });
  if (!found.ok)
    throw new HubError(found.broken ? found.error : `${file.path} cannot be used: ${found.error}`, found.broken);
  const { shape, sizeBytes, sha256 } = found;
  return sha256 !== null && (file.sha256 ?? sha256) === sha256 ? { shape, sizeBytes, sha256 } : undefined;
}

/**
 * Keeps free space: without it the database cannot commit, for any workspace. Checked before content is accepted and
 * again as it arrives, so each of many uploads overshoots by `CHECK_BYTES` at most.
 */
import { statfsSync } from "node:fs";
import { formatBytes } from "../../lib/bytes.ts";
import { AppError } from "../../lib/errors.ts";
import type { Config } from "../config/config.ts";
import type { Chunks } from "../files.ts";

export const CHECK_BYTES = 64 * 2 ** 20;

type Where = { config: Pick<Config, "data_dir" | "storage"> };

export function freeBytes(dir: string): number {
  const { bavail, bsize } = statfsSync(dir);
  return bavail * bsize;
}

/** The reason why `bytes` more are not taken now; undefined: there is space. */
export function lacksSpace({ config }: Where, bytes = 0): string | undefined {
  const { min_free_bytes: least } = config.storage;
  if (least === 0) return undefined;
  const free = freeBytes(config.data_dir);
  if (free - bytes >= least) return undefined;
  return `the disk of the data directory has ${formatBytes(free)} free, and ${formatBytes(least)} must stay free (storage.min_free_bytes)`;
}

/** 503, as on a full disk. */
export function mustLeaveSpace(where: Where, bytes = 0) {
  const why = lacksSpace(where, bytes);
  if (why === undefined) return;
  const message = `${bytes > 0 ? `${formatBytes(bytes)} cannot` : "Nothing more can"} be stored: ${why}. Delete what is not needed, or have the operator free some space`;
  throw new AppError("storage_unavailable", message, { retryAfterSeconds: 60 });
}

/** The same content, refused as soon as the disk has no space for it. */
export async function* leavingSpace(where: Where, body: Chunks): AsyncGenerator<Uint8Array> {
  let unchecked = CHECK_BYTES;
  for await (const chunk of body) {
    unchecked += chunk.byteLength;
    if (unchecked >= CHECK_BYTES) {
      mustLeaveSpace(where);
      unchecked = 0;
    }
    yield chunk;
  }
}

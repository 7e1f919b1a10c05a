/** Keeps free space on the disk of the data directory: without it the database cannot commit, for any workspace. */
import { statfsSync } from "node:fs";
import { formatBytes } from "../../lib/bytes.ts";
import { AppError } from "../../lib/errors.ts";
import { MIB } from "../../lib/units.ts";
import type { Config } from "../config/config.ts";

const READ_AFTER_BYTES = 64 * MIB; // counted by this process since the last reading
const READ_AFTER_MS = 250; // other processes write too

type Where = { config: Pick<Config, "data_dir" | "storage"> };

export function freeBytes(dir: string): number {
  const { bavail, bsize } = statfsSync(dir);
  return bavail * bsize;
}

const reasonOf = (free: number, least: number) =>
  `the disk of the data directory has ${formatBytes(free)} free, and ${formatBytes(least)} must stay free (storage.min_free_bytes)`;

/** The reason why `bytes` more are not taken now; undefined: there is space. */
export function lacksSpace({ config }: Where, bytes = 0): string | undefined {
  const { min_free_bytes: least } = config.storage;
  if (least === 0) return undefined;
  const free = freeBytes(config.data_dir);
  return free - bytes >= least ? undefined : reasonOf(free, least);
}

/** 503, as on a full disk. */
export function mustLeaveSpace(where: Where, bytes = 0) {
  const why = lacksSpace(where, bytes);
  if (why !== undefined) throw noSpace(bytes, why);
}

function noSpace(bytes: number, why: string): AppError {
  const message = `${bytes > 0 ? `${formatBytes(bytes)} cannot` : "Nothing more can"} be stored: ${why}. Delete what is not needed, or have the operator free some space`;
  return new AppError("storage_unavailable", message, { retryAfterSeconds: 60 });
}

/**
 * The free space as all writers of this process see it. The disk is asked now and then; in between, every byte that a
 * writer takes counts at once. So writers at the same time do not share the same free space.
 */
export class DiskSpace {
  readonly #least: number;
  readonly #read: () => number;
  #free = 0;
  #readAt = Number.NEGATIVE_INFINITY;
  /** Taken since the last reading, and taken before but not on the disk at that time. */
  #since = 0;
  #unwritten = 0;

  constructor({ config }: Where, read = () => freeBytes(config.data_dir)) {
    this.#least = config.storage.min_free_bytes;
    this.#read = read;
  }

  /** Throws 503 if the disk has no space for `bytes`. Takes nothing. */
  expect(bytes: number): void {
    if (this.#least === 0) return;
    const isStale = this.#since >= READ_AFTER_BYTES || performance.now() - this.#readAt >= READ_AFTER_MS;
    if (!isStale && this.#fits(bytes)) return;
    this.#free = this.#read();
    this.#readAt = performance.now();
    this.#since = this.#unwritten;
    if (!this.#fits(bytes)) throw noSpace(bytes, reasonOf(Math.max(0, this.#free - this.#since), this.#least));
  }

  #fits = (bytes: number) => this.#free - this.#since - bytes >= this.#least;

  /** Throws 503 like `expect`. The caller reports the bytes as `written` later. */
  take(bytes: number): void {
    this.expect(bytes);
    this.#since += bytes;
    this.#unwritten += bytes;
  }

  /** The bytes are on the disk, or are not written at all. */
  written(bytes: number): void {
    this.#unwritten -= bytes;
  }
}

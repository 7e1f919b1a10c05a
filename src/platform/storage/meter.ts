/**
 * Counts bytes while they are written, against the quota of a workspace and the free space of the disk. A writer takes
 * bytes before it writes them. Bytes of open meters count for all other writers, so that many writers together pass
 * neither bound. After a kill no meter is open, and the rows say what is stored.
 */
import { MIB } from "../../lib/units.ts";
import type { Meter } from "../files.ts";
import type { DiskSpace } from "../machine/disk.ts";

export type Quota = {
  /** Meters with the same key share the quota. */
  key: string;
  /** Infinity: no limit. */
  most: number;
  /** Bytes that the rows count already. */
  used: () => number;
  /** `others`: bytes that other writers have taken meanwhile. */
  refusal: (bytes: number, others: number) => Error;
  /** In the commit that keeps the bytes: throws if they do not fit. */
  mustFit: (bytes: number) => void;
};

const READ_AFTER_BYTES = 64 * MIB; // rows may also grow without a meter

/** Shared by the open meters of one quota. */
type Pool = {
  meters: number;
  /** Bytes that they have taken. */
  taken: number;
  /** Grows when bytes are given back, or become bytes of rows: then the rows are read again. */
  version: number;
};

/** The open meters of a server. */
export class Meters {
  readonly #space: DiskSpace;
  readonly #pools = new Map<string, Pool>();

  constructor(space: DiskSpace) {
    this.#space = space;
  }

  /** Without a quota only the free space counts. The caller disposes of the meter. */
  open(quota?: Quota): OpenMeter {
    if (!quota || quota.most === Number.POSITIVE_INFINITY) return new OpenMeter(this.#space);
    const { key } = quota;
    const pool = this.#pools.get(key) ?? { meters: 0, taken: 0, version: 0 };
    pool.meters++;
    this.#pools.set(key, pool);
    const onClose = () => {
      pool.meters--;
      if (pool.meters === 0) this.#pools.delete(key);
    };
    return new OpenMeter(this.#space, { quota, pool, onClose });
  }
}

type Limit = { quota: Quota; pool: Pool; onClose: () => void };

export class OpenMeter implements Meter, Disposable {
  readonly #space: DiskSpace;
  readonly #limit: Limit | undefined;
  #isClosed = false;
  #own = 0;
  #unwritten = 0;
  #used = { bytes: 0, version: -1, since: 0 };

  constructor(space: DiskSpace, limit?: Limit) {
    this.#space = space;
    this.#limit = limit;
  }

  take(bytes: number): void {
    this.#wrote();
    this.#mustFit(bytes);
    this.#space.take(bytes);
    this.#unwritten = bytes;
    this.#own += bytes;
    this.#used.since += bytes;
    if (this.#limit) this.#limit.pool.taken += bytes;
  }

  /** Throws if an announced size does not fit. Takes nothing. */
  expect(bytes: number): void {
    this.#mustFit(bytes);
    this.#space.expect(bytes);
  }

  /** In the commit that keeps the bytes: from here on its rows count them. Throws if they do not fit. */
  keep(bytes: number): void {
    this.#limit?.quota.mustFit(bytes);
    this.#release();
  }

  /** Gives back what was taken and not kept. */
  [Symbol.dispose](): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#wrote();
    this.#release();
    this.#limit?.onClose();
  }

  #mustFit(bytes: number) {
    if (!this.#limit) return;
    const { quota, pool } = this.#limit;
    const isOver = () => this.#used.bytes + pool.taken + bytes > quota.most;
    if (this.#used.since >= READ_AFTER_BYTES || this.#used.version !== pool.version || isOver())
      this.#used = { bytes: quota.used(), version: pool.version, since: 0 };
    if (isOver()) throw quota.refusal(this.#own + bytes, pool.taken - this.#own);
  }

  #wrote() {
    this.#space.written(this.#unwritten);
    this.#unwritten = 0;
  }

  #release() {
    if (this.#limit && this.#own > 0) {
      this.#limit.pool.taken -= this.#own;
      this.#limit.pool.version++;
    }
    this.#own = 0;
  }
}

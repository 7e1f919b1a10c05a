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

const READ_AFTER_BYTES = MIB;

/** The open meters of a server. */
export class Meters {
  readonly #space: DiskSpace;
  /** Bytes of open meters by key. */
  readonly #taken = new Map<string, number>();
  /** Grows when bytes of a meter become bytes of rows. */
  #version = 0;

  constructor(space: DiskSpace) {
    this.#space = space;
  }

  /** Without a quota only the free space counts. The caller disposes of the meter. */
  open(quota?: Quota): OpenMeter {
    const taken = this.#taken;
    return new OpenMeter(this.#space, quota, {
      all: () => taken.get(quota?.key ?? "") ?? 0,
      add: (bytes) => {
        const sum = (taken.get(quota?.key ?? "") ?? 0) + bytes;
        if (sum > 0) taken.set(quota?.key ?? "", sum);
        else taken.delete(quota?.key ?? "");
        if (bytes < 0) this.#version++;
      },
      version: () => this.#version,
    });
  }
}

type Shared = { all: () => number; add: (bytes: number) => void; version: () => number };

export class OpenMeter implements Meter, Disposable {
  readonly #space: DiskSpace;
  readonly #quota: Quota | undefined;
  readonly #shared: Shared;
  #own = 0;
  #unwritten = 0;
  #used = { bytes: 0, version: -1, since: 0 };

  constructor(space: DiskSpace, quota: Quota | undefined, shared: Shared) {
    this.#space = space;
    this.#quota = quota?.most === Number.POSITIVE_INFINITY ? undefined : quota;
    this.#shared = shared;
  }

  take(bytes: number): void {
    this.#wrote();
    this.#mustFit(bytes, this.#used.since >= READ_AFTER_BYTES);
    this.#space.take(bytes);
    this.#unwritten = bytes;
    this.#own += bytes;
    if (!this.#quota) return;
    this.#used.since += bytes;
    this.#shared.add(bytes);
  }

  /** Throws if an announced size does not fit. Takes nothing. */
  expect(bytes: number): void {
    this.#mustFit(bytes, true);
    this.#space.expect(bytes);
  }

  /** In the commit that keeps the bytes: from here on its rows count them. Throws if they do not fit. */
  keep(bytes: number): void {
    this.#quota?.mustFit(bytes);
    this.#release();
  }

  /** Gives back what was taken and not kept. */
  [Symbol.dispose](): void {
    this.#wrote();
    this.#release();
  }

  #mustFit(bytes: number, isStale: boolean) {
    const quota = this.#quota;
    if (!quota) return;
    const isOver = () => this.#used.bytes + this.#shared.all() + bytes > quota.most;
    const version = this.#shared.version();
    if (isStale || this.#used.version !== version || isOver()) this.#used = { bytes: quota.used(), version, since: 0 };
    if (isOver()) throw quota.refusal(this.#own + bytes, this.#shared.all() - this.#own);
  }

  #wrote() {
    this.#space.written(this.#unwritten);
    this.#unwritten = 0;
  }

  #release() {
    if (this.#quota && this.#own > 0) this.#shared.add(-this.#own);
    this.#own = 0;
  }
}

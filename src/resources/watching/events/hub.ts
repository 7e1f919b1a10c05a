/**
 * Shares the newest events of a workspace among its streams: one query serves all of them. It runs a second after the
 * last one, or when this process has emitted something. Events are kept here only once they are on the disk.
 */
import type { Ctx } from "../../../context.ts";
import { onEvents } from "../../../events/emit.ts";
import type { EventRow } from "../../../events/table.ts";
import { durable } from "../../../platform/db/db.ts";

/** The command line is another process and may write events too, so the database is polled. */
const POLL_MS = 1_000;
const KEPT = 256;

/** Both functions query the database. */
type Source = {
  newestSeq: () => number;
  /** The next events after `seq`, oldest first. */
  after: (seq: number) => EventRow[];
};

export class Hub {
  /** Rows after `from`, up to `newest`, without a gap. */
  #rows: EventRow[] = [];
  #from = 0;
  #newest = 0;
  #waiting = Promise.withResolvers<void>();
  #followers = 0;
  #stop = new AbortController();
  #begun: Promise<void> | undefined;
  #bell = Promise.withResolvers<void>();
  #failure: { error: unknown } | undefined;

  constructor(
    readonly ctx: Ctx,
    readonly source: Source,
    readonly onEmpty: () => void,
  ) {}

  /** Rejects when the newest event is lost with its commit: the next event would get the same `seq`. */
  join(): Promise<void> {
    this.#followers++;
    this.#begun ??= this.#begin();
    return this.#begun;
  }

  leave() {
    if (--this.#followers > 0) return;
    this.#stop.abort();
    this.onEmpty();
  }

  /** The `seq` of the newest event. */
  get newest(): number {
    return this.#newest;
  }

  /** The events after `seq`, if all of them are kept here. */
  rowsAfter(seq: number): EventRow[] | undefined {
    return seq < this.#from ? undefined : this.#rows.filter((row) => row.seq > seq);
  }

  /** Resolves when there is an event after `seq`, or when the signal aborts. */
  async changed(seq: number, signal: AbortSignal): Promise<void> {
    if (this.#failure) throw this.#failure.error;
    if (this.#newest > seq || signal.aborted) return;
    const left = Promise.withResolvers<void>();
    const leave = () => left.resolve();
    signal.addEventListener("abort", leave, { once: true });
    await Promise.race([this.#waiting.promise, left.promise]);
    signal.removeEventListener("abort", leave);
  }

  async #begin() {
    const newest = this.source.newestSeq();
    await durable(this.ctx.db);
    [this.#from, this.#newest] = [newest, newest];
    void this.#watch();
  }

  /** Ends when the last follower leaves. A query that fails is passed to the followers. */
  async #watch() {
    const { ctx } = this;
    const silence = onEvents(ctx.db, () => this.#bell.resolve());
    try {
      while (!this.#stop.signal.aborted) {
        this.#bell = Promise.withResolvers();
        await this.#poll();
        const pause = new AbortController();
        const wait = ctx.clock.sleep(POLL_MS, AbortSignal.any([this.#stop.signal, ctx.closing, pause.signal]));
        await Promise.race([this.#bell.promise, wait]);
        pause.abort();
        if (ctx.closing.aborted) return;
      }
    } catch (error) {
      this.#failure = { error };
      this.#waiting.promise.catch(() => {}); // no follower may be waiting now
      this.#waiting.reject(error);
      this.onEmpty(); // the next follower gets a new hub
    } finally {
      silence();
    }
  }

  async #poll() {
    const rows = this.source.after(this.#newest);
    if (rows.length === 0) return;
    await durable(this.ctx.db); // the query sees the open commit too
    this.#rows.push(...rows);
    this.#newest = rows.at(-1)?.seq ?? this.#newest;
    if (this.#rows.length > KEPT) {
      const dropped = this.#rows.splice(0, this.#rows.length - KEPT);
      this.#from = dropped.at(-1)?.seq ?? this.#from;
    }
    this.#bell.resolve(); // there may be more
    this.#waiting.resolve();
    this.#waiting = Promise.withResolvers();
  }
}

export function hubFor(ctx: Ctx, workspaceId: string, source: Source): Hub {
  const { hubs } = ctx.state.events;
  const existing = hubs.get(workspaceId);
  if (existing) return existing;
  const hub: Hub = new Hub(ctx, source, () => {
    if (hubs.get(workspaceId) === hub) hubs.delete(workspaceId);
  });
  hubs.set(workspaceId, hub);
  return hub;
}

/**
 * The newest events of a workspace while somebody follows it: one look at the database serves all of its streams, a
 * second after the last or when this process has emitted something. Events are kept here only once they are on the disk.
 */
import type { Ctx } from "../../context.ts";
import { onEvents } from "../../events/emit.ts";
import type { EventRow } from "../../events/table.ts";
import { oncePer } from "../../lib/once_per.ts";
import { type Db, durable } from "../../platform/db/db.ts";

/** Another process (the command line) may write events too; it cannot ring our bell, so we look this often. */
const LOOK_MS = 1_000;
const KEPT = 256;

/** Both are calls to the database. */
type Source = {
  newestSeq: () => number;
  /** The next ones behind a place, oldest first. */
  after: (seq: number) => EventRow[];
};

export class Hub {
  /** Rows behind `from`, up to `newest`, without a gap. */
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

  /** Rejects when what was newest is lost with its commit: the next event would get its place. */
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

  /** The place behind the newest event. */
  get newest(): number {
    return this.#newest;
  }

  /** The events behind a place, if all of them are kept here. */
  rowsAfter(seq: number): EventRow[] | undefined {
    return seq < this.#from ? undefined : this.#rows.filter((row) => row.seq > seq);
  }

  /** Until there is an event behind this place, or the signal aborts. */
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

  /** Ends when the last follower leaves; a look that fails is the followers' to hear. */
  async #watch() {
    const { ctx } = this;
    const silence = onEvents(ctx.db, () => this.#bell.resolve());
    try {
      while (!this.#stop.signal.aborted) {
        this.#bell = Promise.withResolvers();
        await this.#look();
        const pause = new AbortController();
        const wait = ctx.clock.sleep(LOOK_MS, AbortSignal.any([this.#stop.signal, ctx.closing, pause.signal]));
        await Promise.race([this.#bell.promise, wait]);
        pause.abort();
        if (ctx.closing.aborted) return;
      }
    } catch (error) {
      this.#failure = { error };
      this.#waiting.promise.catch(() => {}); // where nobody waits at this moment
      this.#waiting.reject(error);
      this.onEmpty(); // who comes next begins anew
    } finally {
      silence();
    }
  }

  async #look() {
    const rows = this.source.after(this.#newest);
    if (rows.length === 0) return;
    await durable(this.ctx.db); // we see the open commit too
    this.#rows.push(...rows);
    this.#newest = rows.at(-1)?.seq ?? this.#newest;
    if (this.#rows.length > KEPT) {
      const gone = this.#rows.splice(0, this.#rows.length - KEPT);
      this.#from = gone.at(-1)?.seq ?? this.#from;
    }
    this.#bell.resolve(); // there may be more
    this.#waiting.resolve();
    this.#waiting = Promise.withResolvers();
  }
}

const hubsOf = oncePer((_db: Db) => new Map<string, Hub>());

export function hubFor(ctx: Ctx, workspaceId: string, source: Source): Hub {
  const hubs = hubsOf(ctx.db);
  const known = hubs.get(workspaceId);
  if (known) return known;
  const hub: Hub = new Hub(ctx, source, () => {
    if (hubs.get(workspaceId) === hub) hubs.delete(workspaceId);
  });
  hubs.set(workspaceId, hub);
  return hub;
}

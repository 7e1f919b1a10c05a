/** Live state of the sessions. It ends with the process; rows and files stay. */
import type { Clock } from "../../../platform/clock.ts";
import type { Config } from "../../../platform/config/config.ts";
import { Semaphore } from "../../../platform/semaphore.ts";
import type { Usage } from "../../../sandbox/files/sandbox_dir.ts";
import type { JailSupport } from "../../../sandbox/jail/types.ts";
import type { SessionRow } from "./table.ts";

declare module "../../../context.ts" {
  interface State {
    readonly sessions: SessionsState;
  }
}

const MOST_WAITING_EACH = 256;

export class LiveSession {
  /** Running commands and file operations. The directory is not removed before they end. */
  readonly #operations = new Set<Promise<void>>();
  /** Aborts the operations when the session ends. */
  readonly ending = new AbortController();
  preparing: Promise<void> | undefined;
  removing = false;
  /** Number of running commands. While one runs, only a new measurement tells the usage. */
  running = 0;
  usedAt: number;
  /** The last measurement plus later uploads. Undefined if the directory must be measured. */
  usage: Usage | undefined;
  /** Bytes of uploads that are in progress. */
  incomingBytes = 0;
  /** True until the usage was measured, and after a command was killed for exceeding the disk quota. */
  mayBeFull = true;
  /** The last write-back of volumes. The next one waits for it. */
  syncing: Promise<unknown> = Promise.resolve();

  constructor(usedAt: number) {
    this.usedAt = usedAt;
  }

  get isBusy(): boolean {
    return this.#operations.size > 0 || this.preparing !== undefined;
  }

  async untilIdle(): Promise<void> {
    while (this.isBusy) await Promise.allSettled([this.preparing, ...this.#operations]);
  }

  /** Runs an operation. The session is busy until it ends. */
  async use<T>(clock: Clock, work: () => Promise<T>): Promise<T> {
    const over = Promise.withResolvers<void>();
    this.#operations.add(over.promise);
    try {
      return await work();
    } finally {
      this.usedAt = clock.now();
      this.#operations.delete(over.promise);
      over.resolve();
    }
  }
}

export class SessionsState {
  readonly #sessions = new Map<string, LiveSession>();
  /** The last check whether this host can run sessions. */
  support: { at: number; answer: Promise<JailSupport> } | undefined;
  /** Time of the last sweep of directories without a row. */
  sweptAt = Number.NEGATIVE_INFINITY;
  /** The first sweep also removes unfinished uploads of the previous server. */
  hasSwept = false;
  /** Commands that run at the same time in all sessions. One permit is kept for workspaces that run none. */
  readonly execs: Semaphore;

  constructor({ sessions }: Pick<Config, "sessions">) {
    this.execs = new Semaphore({ name: "commands", permits: sessions.execs, mostWaitingEach: MOST_WAITING_EACH });
  }

  of({ id, usedAt }: Pick<SessionRow, "id" | "usedAt">): LiveSession {
    const live = this.#sessions.get(id) ?? new LiveSession(usedAt);
    this.#sessions.set(id, live);
    return live;
  }

  /** Does not create live state, because the session may have ended. */
  lastUse({ id, usedAt }: SessionRow): number {
    return Math.max(usedAt, this.#sessions.get(id)?.usedAt ?? usedAt);
  }

  forget(id: string) {
    this.#sessions.delete(id);
  }
}

import type { Ctx } from "../../../context.ts";
import { Semaphore } from "../../../platform/semaphore.ts";

declare module "../../../context.ts" {
  interface State {
    readonly tracker: TrackerState;
  }
}

/** `restUntil`: no request to this destination before then, on the steady clock. */
export type Destination = { isBusy: boolean; failures: number; restUntil: number };

/** The state of trackers that lives in this process (`ctx.state.tracker`). */
export class TrackerState {
  /** Destinations that are reported to at the same time. */
  readonly permits = new Semaphore({ name: "trackers", permits: 16, mostEach: 8 });
  /** One for each workspace and address, so a tracker that hangs holds up no other. */
  readonly #destinations = new Map<string, Destination>();
  readonly #running = new Set<Promise<void>>();
  readonly #closing = new AbortController();
  /** Job → the newest step of each metric that its tracker had. */
  readonly newestSteps = new Map<string, Map<string, number>>();

  /** Destinations that are being reported to. */
  get running(): number {
    return this.#running.size;
  }

  /** Aborts when the server stops. */
  get signal(): AbortSignal {
    return this.#closing.signal;
  }

  destination(workspaceId: string, baseUrl: string): Destination {
    const key = `${workspaceId} ${baseUrl}`;
    const destination = this.#destinations.get(key) ?? {
      isBusy: false,
      failures: 0,
      restUntil: Number.NEGATIVE_INFINITY,
    };
    this.#destinations.set(key, destination);
    return destination;
  }

  /** Marks the destination as busy until `work` ends. `work` must not reject. */
  run(destination: Destination, work: Promise<void>): void {
    destination.isBusy = true;
    const running = work.finally(() => {
      destination.isBusy = false;
      this.#running.delete(running);
    });
    this.#running.add(running);
  }

  /** Resolves when nothing is being reported. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  async abort(reason: Error): Promise<void> {
    this.#closing.abort(reason);
    await this.idle();
  }
}

/** Cuts off what is under way. After the next start it is found out what was done. */
export const close = ({ state }: Pick<Ctx, "state">): Promise<void> =>
  state.tracker.abort(new Error("the server is stopping"));

import type { Ctx } from "../../../../context.ts";
import { MINUTE_MS, SECOND_MS } from "../../../../lib/units.ts";
import type { Clock } from "../../../../platform/clock.ts";
import { type Db, durable, generationOf, isDirty } from "../../../../platform/db/db.ts";
import type { Secrets } from "../rotation.ts";
import { type EndpointLoad, FIRST_TURN, firstPace, LIMITS, type Pace, paceAfter, paceDuring } from "./fairness.ts";
import type { ResultBatch } from "./record.ts";

/**
 * Nothing is sent that a power cut could take back. Results of attempts are exempt: a result that is lost costs one
 * repetition, so no attempt waits for the results of others.
 */
class FlushGuard {
  #exempt = 0;
  #flushed = -1;

  /** Runs `fn`, whose writes are exempt. */
  exempt<T>(db: Db, fn: () => T): T {
    const before = generationOf(db);
    try {
      return fn();
    } finally {
      this.#exempt += generationOf(db) - before;
    }
  }

  /** Resolves once every write that is not exempt is on the disk. */
  async flush(db: Db): Promise<void> {
    const writes = generationOf(db) - this.#exempt;
    if (writes === this.#flushed) return;
    if (isDirty(db)) await durable(db);
    this.#flushed = writes;
  }
}

declare module "../../../../context.ts" {
  interface State {
    readonly webhooks: WebhooksState;
  }
}

/** `deliveries`: those with an attempt under way → when it began, in the order they began. */
/** `ahead`: rows that were due when they were read, oldest first. What becomes due later comes behind them. */
type Endpoint = {
  readonly workspaceId: string;
  pace: Pace;
  readonly deliveries: Map<string, number>;
  readonly ahead: DueDelivery[];
};
export type DueDelivery = { readonly id: string; readonly endpointId: string };
type Facts = { workspaceId: string; consecutiveFailures: number };
const UNKNOWN: Facts = { workspaceId: "", consecutiveFailures: 0 }; // deleted meanwhile
export type ActiveEndpoint = EndpointLoad & {
  readonly deliveries: ReadonlyMap<string, number>;
  readonly ahead: DueDelivery[];
};

const SWEEP_MS = SECOND_MS;
const CLOCK_CHECK_MS = MINUTE_MS;

/** The state of deliveries that lives in this process (`ctx.state.webhooks`). */
export class WebhooksState {
  turn = FIRST_TURN;
  /** The last endpoint of the previous scan; empty: the next scan starts with the first endpoint. */
  scannedTo = "";
  /** Results that wait for the next write. */
  openBatch: ResultBatch | undefined;
  readonly flushGuard = new FlushGuard();
  /** Endpoint → its opened secrets, with the sealed text they came from. */
  readonly openedSecrets = new Map<string, { sealed: string; secrets: Secrets }>();
  readonly #endpoints = new Map<string, Endpoint>();
  readonly #attempts = new Set<Promise<void>>();
  readonly #closing = new AbortController();
  #pausedUntil = Number.NEGATIVE_INFINITY;
  #sweptAt = Number.NEGATIVE_INFINITY;
  #clockCheckedAt = Number.NEGATIVE_INFINITY;

  constructor(readonly limits = LIMITS) {}

  /** Attempts under way. */
  get attempts(): number {
    return this.#attempts.size;
  }

  /** The given endpoints and all others with an attempt under way. `factsOf` is asked of endpoints that are new here. */
  activeEndpoints(ids: readonly string[], factsOf: (id: string) => Facts | undefined, now: number): ActiveEndpoint[] {
    const active = new Map(ids.map((id) => [id, this.#endpoint(id, factsOf)]));
    for (const [id, endpoint] of this.#endpoints) if (endpoint.deliveries.size > 0) active.set(id, endpoint);
    return [...active].map(([endpointId, { workspaceId, pace, deliveries, ahead }]) => {
      const [oldest = now] = deliveries.values();
      const running = deliveries.size;
      return { endpointId, workspaceId, pace: paceDuring(pace, now - oldest), running, deliveries, ahead };
    });
  }

  #endpoint(id: string, factsOf: (id: string) => Facts | undefined): Endpoint {
    const existing = this.#endpoints.get(id);
    if (existing) return existing;
    const { workspaceId, consecutiveFailures } = factsOf(id) ?? UNKNOWN;
    const pace = firstPace(consecutiveFailures);
    const endpoint: Endpoint = { workspaceId, pace, deliveries: new Map<string, number>(), ahead: [] };
    this.#endpoints.set(id, endpoint);
    return endpoint;
  }

  /** Takes a delivery out of those that were read ahead. */
  take(delivery: DueDelivery): void {
    const ahead = this.#endpoints.get(delivery.endpointId)?.ahead ?? [];
    const place = ahead.indexOf(delivery);
    if (place >= 0) ahead.splice(place, 1);
  }

  /** So much has changed that the due rows of the endpoint are read again. */
  forgetAhead(endpointId: string): void {
    this.#endpoints.get(endpointId)?.ahead.splice(0);
  }

  /** `attempt` gets a signal that aborts when the server stops, and says how the endpoint answered, or nothing. */
  run(
    delivery: DueDelivery,
    now: number,
    attempt: (signal: AbortSignal, pace: Pace) => Promise<{ succeeded: boolean; durationMs: number } | undefined>,
    onEnd: () => void,
  ): void {
    const endpoint = this.#endpoint(delivery.endpointId, () => undefined);
    endpoint.deliveries.set(delivery.id, now);
    const running = attempt(this.#closing.signal, endpoint.pace)
      .then((answer) => {
        if (answer) endpoint.pace = paceAfter(endpoint.pace, answer, this.limits);
      })
      .finally(() => {
        endpoint.deliveries.delete(delivery.id);
        this.#attempts.delete(running);
        onEnd();
      });
    this.#attempts.add(running);
  }

  /** Starts nothing for a while. */
  pause(clock: Clock, ms: number): void {
    this.#pausedUntil = clock.steady() + ms;
  }

  isPaused = (clock: Clock): boolean => clock.steady() < this.#pausedUntil;

  /** True once a second: then deliveries of disabled, deleted and re-enabled endpoints are settled. */
  takeSweep(clock: Clock): boolean {
    if (clock.steady() - this.#sweptAt < SWEEP_MS) return false;
    this.#sweptAt = clock.steady();
    return true;
  }

  /** True once a minute: then due times of a wrong clock are corrected. */
  takeClockCheck(clock: Clock): boolean {
    if (clock.steady() - this.#clockCheckedAt < CLOCK_CHECK_MS) return false;
    this.#clockCheckedAt = clock.steady();
    return true;
  }

  /** The pace of an endpoint without attempts is learned again soon. */
  forgetIdle(): void {
    for (const [id, { deliveries }] of this.#endpoints) if (deliveries.size === 0) this.#endpoints.delete(id);
  }

  /** Resolves when no attempt is under way. */
  async idle(): Promise<void> {
    while (this.#attempts.size > 0) await Promise.all(this.#attempts);
  }

  /** Cuts off what is under way; it leaves no trace and is made again at the next start. */
  async abort(reason: Error): Promise<void> {
    this.#closing.abort(reason);
    await this.idle();
  }
}

const GRACE_MS = 2_000;

/** Attempts that are about to end may do so. */
export async function close({ state: { webhooks }, clock }: Pick<Ctx, "state" | "clock">, signal: AbortSignal) {
  const over = new AbortController();
  await Promise.race([webhooks.idle(), clock.sleep(GRACE_MS, AbortSignal.any([signal, over.signal]))]);
  over.abort();
  await webhooks.abort(new Error("the server is stopping"));
}

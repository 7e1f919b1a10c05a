/** What only this process knows of deliveries: those under way, and how their endpoints answer. */
import type { Ctx } from "../../../context.ts";
import { oncePer } from "../../../lib/once_per.ts";
import type { Db } from "../../../platform/db/db.ts";
import type { Secrets } from "../rotation.ts";
import { FIRST_TURN, LIMITS, type Limits, type Pace, paceDuring, type Turn } from "./fairness.ts";
import type { End } from "./land.ts";

export type Lane = {
  pace: Pace;
  /** Delivery → since when, in the order they began. */
  readonly running: Map<string, number>;
  /** Found due and not started, oldest first: what is read at once serves several looks. It may have changed since. */
  ahead: Next[];
  /** The look that read them. */
  readIn: number;
};
/** A delivery that may start. */
export type Next = { id: string; endpointId: string };
export type Live = {
  readonly lanes: Map<string, Lane>;
  readonly flights: Set<Promise<void>>;
  /** Aborts what is under way, when the server stops. */
  readonly closing: AbortController;
  turn: Turn;
  looks: number;
  /** The endpoint that the last look ended with; empty: the next one begins with the first. */
  lookedTo: string;
  limits: Limits;
  /** By how much the ends of attempts moved `generationOf`: nothing that is sent follows from them. */
  landed: number;
  /** `generationOf` less `landed`, when all of that was on the disk. */
  flushed: number;
  /** Of `performance.now()`: a look at very many lanes is followed by a rest. */
  restUntil: number;
  /** When what is left of disabled endpoints was last looked for. */
  sweptAt: number;
};

export const liveOf: (db: Db) => Live = oncePer(
  (): Live => ({
    lanes: new Map(),
    flights: new Set(),
    closing: new AbortController(),
    turn: FIRST_TURN,
    looks: 0,
    lookedTo: "",
    limits: LIMITS,
    landed: 0,
    flushed: -1,
    restUntil: 0,
    sweptAt: 0,
  }),
);

/** As of now: an attempt that has been under way for long makes its endpoint slow before it ends. */
export function paceNow({ pace, running }: Lane, now: number): Pace {
  const [since] = running.values();
  return since === undefined ? pace : paceDuring(pace, now - since);
}

/** Resolves when nothing is under way. */
export async function quiet(live: Live): Promise<void> {
  while (live.flights.size > 0) await Promise.all(live.flights);
}

const GRACE_MS = 2_000;

/** Lets attempts end that are about to; the others leave no trace and are made again at the next start. */
export async function close(ctx: Pick<Ctx, "db" | "clock">, signal: AbortSignal): Promise<void> {
  const live = liveOf(ctx.db);
  const over = new AbortController();
  const patience = AbortSignal.any([signal, over.signal]);
  await Promise.race([quiet(live), ctx.clock.sleep(GRACE_MS, patience)]);
  over.abort();
  live.closing.abort(new Error("the server is stopping"));
  await quiet(live);
}

/** The state of deliveries that lives in this process (`ctx.state.webhooks`). */
export class WebhooksState {
  readonly lanes = new Map<string, Lane>();
  readonly flights = new Set<Promise<void>>();
  /** Aborts what is under way when the server stops. */
  readonly closing = new AbortController();
  turn: Turn = FIRST_TURN;
  looks = 0;
  lookedTo = "";
  limits: Limits = LIMITS;
  landed = 0;
  flushed = -1;
  restUntil = 0;
  sweptAt = 0;
  /** Ends of attempts that share the next commit. */
  readonly ends: End[] = [];
  landing: Promise<Map<End, unknown>> | undefined;
  /** Endpoint → its opened secrets, with the sealed text they came from. */
  readonly opened = new Map<string, { sealed: string; secrets: Secrets }>();
}

/** What only this process knows of trackers: who is being told, who rests, and what was asked of them. */
import type { Ctx } from "../../context.ts";
import { oncePer } from "../../lib/once_per.ts";
import type { Db } from "../../platform/db/db.ts";

export type Lane = { isAtWork: boolean; failures: number; restUntil: number };
export type Live = {
  /** One for each workspace and address: a tracker that hangs holds up nobody but itself. */
  readonly lanes: Map<string, Lane>;
  readonly flights: Set<Promise<void>>;
  /** Job → the newest step of each metric that its tracker had when it was asked. */
  readonly known: Map<string, Map<string, number>>;
  readonly closing: AbortController;
};

export const liveOf: (db: Db) => Live = oncePer(
  (): Live => ({ lanes: new Map(), flights: new Set(), known: new Map(), closing: new AbortController() }),
);

/** Resolves when nobody is being told. */
export async function quiet(live: Live): Promise<void> {
  while (live.flights.size > 0) await Promise.all(live.flights);
}

/** What is under way is cut off: the next start finds out what was done. */
export async function close(ctx: Pick<Ctx, "db">): Promise<void> {
  const live = liveOf(ctx.db);
  live.closing.abort(new Error("the server is stopping"));
  await quiet(live);
}

/** The state of trackers that lives in this process (`ctx.state.tracker`). */
export class TrackerState {
  /** One lane for each workspace and address, so a tracker that hangs holds up no other. */
  readonly lanes = new Map<string, Lane>();
  readonly flights = new Set<Promise<void>>();
  /** Job → the newest step of each metric that its tracker had. */
  readonly known = new Map<string, Map<string, number>>();
  readonly closing = new AbortController();
}

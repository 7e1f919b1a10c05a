import { eq, sql } from "drizzle-orm";
import { transition } from "../../../events/lifecycle.ts";
import { type Db, prepared, write } from "../../../platform/db/db.ts";
import { preparedRow } from "../../../platform/db/row.ts";
import { deliveryMachine } from "../machine.ts";
import { webhookDeliveries, webhookEndpoints } from "../table.ts";
import { EXPIRED } from "./enqueue.ts";
import { type Lane as FairLane, firstPace, roomOf } from "./fairness.ts";
import { type Lane, type Live, type Next, paceNow } from "./live.ts";

export const deliveryById = preparedRow(webhookDeliveries, eq(webhookDeliveries.id, sql.placeholder("id")));
export const endpointById = preparedRow(webhookEndpoints, eq(webhookEndpoints.id, sql.placeholder("id")));

type Waiting = { endpoint_id: string; next_at: number };
type Due = { id: string; expires_at: number; resend_at: number | null };

/** One step of the index per endpoint, however many deliveries wait for it. */
const nextWaiting = prepared((db) =>
  db.$client.prepare<Waiting, [string]>(
    `SELECT endpoint_id, next_at FROM webhook_deliveries
     WHERE next_at IS NOT NULL AND endpoint_id > ? ORDER BY endpoint_id, next_at LIMIT 1`,
  ),
);
const oldestDue = prepared((db) =>
  db.$client.prepare<Due, [string, number, number]>(
    `SELECT id, expires_at, resend_at FROM webhook_deliveries
     WHERE endpoint_id = ? AND next_at <= ? ORDER BY next_at LIMIT ?`,
  ),
);

const EXPIRED_ROWS = 200; // in one look: the rest comes with the next one
const AHEAD_WINDOWS = 2; // so many more than may start are read, or every start would read a whole window again
const LOOK_LANES = 1_000; // at a time, a few milliseconds: the next look goes on behind them

export type Look = {
  lanes: FairLane<Next>[];
  /** There is more, for the next look. To be asked once the starts are chosen. */
  readonly isCut: boolean;
};

/** The endpoints with something due or under way. What is due is read of those whose turn comes, no more than may start. */
export function readLanes(db: Db, live: Live, now: number): Look {
  const found = new Map<string, FairLane<Next>>();
  live.looks++;
  const waiting = someWaiting(db, live.lookedTo);
  let isExpiring = false;
  const spare = { rows: EXPIRED_ROWS };
  const read = (endpointId: string, lane: Lane) => {
    const { due, hasMore } = dueOf(db, { endpointId, lane, now, live, spare });
    isExpiring ||= hasMore;
    return due;
  };
  for (const { endpoint_id: endpointId, next_at } of waiting) {
    if (next_at > now) continue;
    const lane = laneOf(db, live, endpointId);
    found.set(
      endpointId,
      fairLane(endpointId, lane, now, () => read(endpointId, lane)),
    );
  }
  for (const [endpointId, lane] of live.lanes)
    if (lane.running.size > 0 && !found.has(endpointId))
      found.set(
        endpointId,
        fairLane(endpointId, lane, now, () => []),
      );
  const isFull = waiting.length >= LOOK_LANES;
  live.lookedTo = isFull ? (waiting.at(-1)?.endpoint_id ?? "") : "";
  return {
    lanes: [...found.values()],
    get isCut() {
      return isFull || isExpiring;
    },
  };
}

function fairLane(endpointId: string, lane: Lane, now: number, read: () => readonly Next[]): FairLane<Next> {
  let due: readonly Next[] | undefined;
  return {
    endpointId,
    pace: paceNow(lane, now),
    running: lane.running.size,
    get due() {
      due ??= read();
      return due;
    },
  };
}

/** Behind `after` in the order of their ids. */
function someWaiting(db: Db, after: string): Waiting[] {
  const next = nextWaiting(db);
  const found: Waiting[] = [];
  for (let at = next.get(after); at && found.length < LOOK_LANES; at = next.get(at.endpoint_id)) found.push(at);
  return found;
}

export function laneOf(db: Db, { lanes }: Live, endpointId: string): Lane {
  const known = lanes.get(endpointId);
  if (known) return known;
  const lane: Lane = {
    pace: firstPace(endpointById(db, { id: endpointId })?.consecutiveFailures ?? 0),
    running: new Map(),
    ahead: [],
    readIn: 0,
  };
  lanes.set(endpointId, lane);
  return lane;
}

/** `spare`: so many may still be ended for having expired, of all lanes. */
type Where = { endpointId: string; lane: Lane; now: number; live: Live; spare: { rows: number } };

/** `hasMore`: of those that have expired. */
function dueOf(db: Db, where: Where): { due: readonly Next[]; hasMore: boolean } {
  const { lane, now, live } = where;
  const pace = paceNow(lane, now);
  const room = roomOf({ pace, running: lane.running.size }, live.limits);
  const hasMore = lane.ahead.length < room && readAhead(db, where, room + AHEAD_WINDOWS * pace.window);
  return { due: lane.ahead.slice(0, room), hasMore };
}

function readAhead(db: Db, where: Where, rows: number): boolean {
  const { endpointId, lane, now, live } = where;
  const read = () =>
    oldestDue(db)
      .all(endpointId, now, rows + lane.running.size)
      .filter(({ id }) => !lane.running.has(id));
  let due = read();
  if (where.spare.rows > 0 && due.some((each) => hasExpired(each, now))) {
    expireSome(db, where);
    due = read();
  }
  const living = due.filter((each) => !hasExpired(each, now));
  lane.ahead = living.map(({ id }) => ({ id, endpointId }));
  lane.readIn = live.looks;
  return living.length < due.length;
}

/** Those that nobody acknowledged in time need no place and no turn. */
function expireSome(db: Db, { endpointId, lane, now, spare }: Where) {
  const oldest = oldestDue(db).all(endpointId, now, spare.rows);
  write(db, (tx) => {
    for (const each of oldest) {
      if (!hasExpired(each, now) || lane.running.has(each.id)) continue;
      spare.rows--;
      const lastError = deliveryById(tx, { id: each.id })?.lastError ?? EXPIRED;
      transition(tx, deliveryMachine, "exhaust", { id: each.id, now }, { dueAt: null, lastError });
    }
  });
}

/** One that is wanted by hand may still be sent. */
const hasExpired = ({ expires_at, resend_at }: Due, now: number) => resend_at === null && expires_at <= now;

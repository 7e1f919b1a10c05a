/**
 * Reads which endpoints have deliveries that are due, and which deliveries these are. Only `expireOverdue` and `redate`
 * write.
 */
import { eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { type Db, prepared, type Tx, write } from "../../../../platform/db/db.ts";
import { gradually } from "../../../../platform/db/gradually.ts";
import { preparedRow } from "../../../../platform/db/row.ts";
import { deliveryMachine } from "../machine.ts";
import { webhookDeliveries } from "../table.ts";
import { EXPIRED } from "./enqueue.ts";
import { type EndpointQueue, type Limits, roomOf, sharesOf, type Turn, turnsOf } from "./fairness.ts";
import type { ActiveEndpoint, DueDelivery } from "./live.ts";
import { LONGEST_WAIT_MS } from "./retry_schedule.ts";

const deliveryById = preparedRow(webhookDeliveries, eq(webhookDeliveries.id, sql.placeholder("id")));

type OldestWaiting = { endpoint_id: string; next_at: number };
type WaitingRow = { id: string; expires_at: number; resend_at: number | null };

/** Several attempts of one endpoint start from one read. Each row is read again right before its attempt. */
const AHEAD_ROWS = 32;

/** One step of the index for each endpoint, however many deliveries wait for it. */
const nextEndpoint = prepared((db) =>
  db.$client.prepare<OldestWaiting, [string]>(
    `SELECT endpoint_id, next_at FROM webhook_deliveries
     WHERE next_at IS NOT NULL AND endpoint_id > ? ORDER BY endpoint_id, next_at LIMIT 1`,
  ),
);
/** Nothing is due at an endpoint that is not enabled: `settleClosed` holds or cancels what waits there. */
const oldestDue = prepared((db) =>
  db.$client.prepare<WaitingRow, [string, number, number]>(
    `SELECT id, expires_at, resend_at FROM webhook_deliveries
     WHERE endpoint_id = ?1 AND next_at <= ?2
       AND EXISTS (SELECT 1 FROM webhook_endpoints WHERE id = ?1 AND status = 'enabled')
     ORDER BY next_at LIMIT ?3`,
  ),
);

const SCANNED_ENDPOINTS = 1_000; // a few milliseconds; the next tick goes on behind them

/** `last`: where the next scan goes on; empty once all endpoints were scanned. */
export type Scan = { endpointIds: string[]; last: string };

/** The endpoints after `after`, in the order of ids, that have a delivery due. */
export function scanEndpoints(db: Db, after: string, now: number): Scan {
  const next = nextEndpoint(db);
  const endpointIds: string[] = [];
  let row = next.get(after);
  for (let scanned = 0; row && scanned < SCANNED_ENDPOINTS; scanned++) {
    if (row.next_at <= now) endpointIds.push(row.endpoint_id);
    after = row.endpoint_id;
    row = next.get(after);
  }
  return { endpointIds, last: row ? after : "" };
}

export type DueRead = {
  /** All of the given endpoints. `due` holds rows only where a start is possible. */
  queues: EndpointQueue<DueDelivery>[];
  /** Endpoints with deliveries that have expired. */
  overdue: ActiveEndpoint[];
};

/** Gives the due deliveries of the endpoints whose turn comes: no more than may start. */
export function readDue(
  db: Db,
  endpoints: readonly ActiveEndpoint[],
  turn: Turn,
  limits: Limits,
  now: number,
): DueRead {
  const rows = new Map<ActiveEndpoint, readonly DueDelivery[]>();
  const overdue: ActiveEndpoint[] = [];
  for (const { speed, permits, endpoints: inTurn } of turnsOf(endpoints, turn, limits)) {
    const share = Math.ceil((2 * permits) / inTurn.length); // twice a fair share: others may have less to send
    let left = permits; // each endpoint that is read uses one at least
    const shares = sharesOf(endpoints, speed, limits);
    for (const endpoint of inTurn) {
      if (left === 0) break;
      if (!shares.hasRoom(endpoint.workspaceId)) continue;
      const { ahead } = endpoint;
      if (ahead.length === 0 && readAhead(db, endpoint, now).hasExpired) overdue.push(endpoint);
      if (ahead.length === 0) continue;
      if (shares.take(endpoint.workspaceId)) left--;
      rows.set(endpoint, ahead.slice(0, Math.min(share, roomOf(endpoint, limits))));
    }
  }
  return { queues: endpoints.map((endpoint) => ({ ...endpoint, due: rows.get(endpoint) ?? [] })), overdue };
}

function readAhead(db: Db, endpoint: ActiveEndpoint, now: number): { hasExpired: boolean } {
  const { endpointId, ahead } = endpoint;
  const waiting = waitingOf(db, endpoint, now, AHEAD_ROWS);
  for (const row of waiting) if (!hasExpired(row, now)) ahead.push({ id: row.id, endpointId });
  return { hasExpired: ahead.length < waiting.length };
}

/** Rows of attempts under way are still due in the database. */
const waitingOf = (db: Db, { endpointId, deliveries, running }: ActiveEndpoint, now: number, most: number) =>
  oldestDue(db)
    .all(endpointId, now, most + running)
    .filter(({ id }) => !deliveries.has(id))
    .slice(0, most);

const EXPIRED_ROWS = 200; // in one tick

/** Ends deliveries that were not acknowledged in time. They need neither a permit nor a turn. */
export function expireOverdue(db: Db, endpoints: readonly ActiveEndpoint[], now: number): void {
  let left = EXPIRED_ROWS;
  write(db, (tx) => {
    for (const endpoint of endpoints)
      for (const row of left > 0 ? waitingOf(tx, endpoint, now, left) : []) {
        if (!hasExpired(row, now)) continue;
        left--;
        const lastError = deliveryById(tx, { id: row.id })?.lastError ?? EXPIRED;
        transition(tx, deliveryMachine, "exhaust", { id: row.id, now }, { dueAt: null, lastError });
      }
  });
}

/** A delivery that is resent by hand may be sent after its expiry. */
const hasExpired = ({ expires_at, resend_at }: WaitingRow, now: number) => resend_at === null && expires_at <= now;

const isAhead = prepared((db) =>
  db.$client.prepare<unknown, [string, number]>(
    "SELECT 1 FROM webhook_deliveries WHERE endpoint_id = ? AND next_at > ? LIMIT 1",
  ),
);
const makeDue = prepared((db) =>
  db.$client.prepare<unknown, [string, number, number, number]>(
    `UPDATE webhook_deliveries SET due_at = min(due_at, ?2), resend_at = min(resend_at, ?2), updated_at = ?2 WHERE id IN
       (SELECT id FROM webhook_deliveries WHERE endpoint_id = ?1 AND next_at > ?3 LIMIT ?4)`,
  ),
);

/**
 * Makes deliveries due whose time was computed while the clock was ahead (`dueTimeMs`): nothing would read their rows
 * until the wrong date comes.
 */
export async function redate({ db, clock }: Pick<Ctx, "db" | "clock">): Promise<void> {
  const now = clock.now();
  const latest = now + LONGEST_WAIT_MS;
  const turn = takingTurns();
  for (let row = nextEndpoint(db).get(""); row; row = nextEndpoint(db).get(row.endpoint_id)) {
    const { endpoint_id: id } = row;
    if (isAhead(db).get(id, latest)) await gradually(db, (tx, rows) => bringBack(tx, id, now, rows));
    await turn();
  }
}

const bringBack = (tx: Tx, endpointId: string, now: number, rows: number): number =>
  makeDue(tx).run(endpointId, now, now + LONGEST_WAIT_MS, rows).changes;

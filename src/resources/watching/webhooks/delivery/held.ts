/**
 * Holds, resumes and ends waiting deliveries when their endpoint is disabled, enabled again or deleted. The commit that changes
 * the endpoint takes the first rows; `settleClosed` does the rest and ends held deliveries that expire.
 */
import type { Ctx } from "../../../../context.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { type Db, prepared, type Tx } from "../../../../platform/db/db.ts";
import { gradually } from "../../../../platform/db/gradually.ts";
import { deliveryMachine } from "../machine.ts";
import type { EndpointRow } from "../table.ts";
import { CANCELLED, EXPIRED } from "./enqueue.ts";

const FIRST_ROWS = 1_000; // in the commit that changes the endpoint

/** The condition of the index `webhook_deliveries_held`. */
const HELD = "status = 'pending' AND due_at IS NULL";

const hold = prepared((db) =>
  db.$client.prepare<unknown, [string, number, number]>(
    `UPDATE webhook_deliveries SET due_at = NULL, resend_at = NULL, updated_at = ?2 WHERE id IN
       (SELECT id FROM webhook_deliveries WHERE endpoint_id = ?1 AND next_at IS NOT NULL LIMIT ?3)`,
  ),
);
const resume = prepared((db) =>
  db.$client.prepare<unknown, [string, number, number]>(
    `UPDATE webhook_deliveries SET due_at = ?2, updated_at = ?2 WHERE id IN
       (SELECT id FROM webhook_deliveries WHERE endpoint_id = ?1 AND ${HELD} AND expires_at > ?2
        ORDER BY expires_at LIMIT ?3)`,
  ),
);

/** Holds what waits for a disabled endpoint. Returns how many rows changed, at most `rows`. */
export const holdWaiting = (tx: Tx, endpointId: string, now: number, rows = FIRST_ROWS): number =>
  hold(tx).run(endpointId, now, rows).changes;

/** Makes the held deliveries of an enabled endpoint due, except for expired ones. */
export const resumeHeld = (tx: Tx, endpointId: string, now: number, rows = FIRST_ROWS): number =>
  resume(tx).run(endpointId, now, rows).changes;

type IdRow = { id: string; lastError: string | null };

const heldUntil = prepared((db) =>
  db.$client.prepare<IdRow, [string, number, number]>(
    `SELECT id, last_error AS lastError FROM webhook_deliveries
     WHERE endpoint_id = ?1 AND ${HELD} AND expires_at <= ?2 ORDER BY expires_at LIMIT ?3`,
  ),
);

/** Cancels what waits for a deleted endpoint. An attempt under way may still succeed. */
export function cancelWaiting(tx: Tx, endpointId: string, now: number, rows = FIRST_ROWS): number {
  const unheld = holdWaiting(tx, endpointId, now, rows);
  const held = heldUntil(tx).all(endpointId, Number.MAX_SAFE_INTEGER, rows);
  for (const { id } of held) transition(tx, deliveryMachine, "cancel", { id, now }, { lastError: CANCELLED });
  return Math.max(unheld, held.length);
}

function exhaustHeld(tx: Tx, endpointId: string, now: number, rows: number): number {
  const expired = heldUntil(tx).all(endpointId, now, rows);
  for (const { id, lastError } of expired)
    transition(tx, deliveryMachine, "exhaust", { id, now }, { lastError: lastError ?? EXPIRED });
  return expired.length;
}

type Closed = { id: string; status: EndpointRow["status"] };

const unheldEndpoints = prepared((db) =>
  db.$client.prepare<Closed, []>(
    `SELECT id, status FROM webhook_endpoints e WHERE status <> 'enabled' AND EXISTS
       (SELECT 1 FROM webhook_deliveries d WHERE d.endpoint_id = e.id AND d.next_at IS NOT NULL)`,
  ),
);
/** One step of the index for each endpoint, however many deliveries it holds. */
const nextHolding = prepared((db) =>
  db.$client.prepare<Closed & { expiresAt: number }, [string]>(
    `SELECT e.id, e.status, d.expires_at AS expiresAt
     FROM webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id
     WHERE d.status = 'pending' AND d.due_at IS NULL AND d.endpoint_id > ?
     ORDER BY d.endpoint_id, d.expires_at LIMIT 1`,
  ),
);

/** Holds, resumes and cancels what was too much for one commit, and ends held deliveries that have expired. */
export async function settleClosed(ctx: Ctx): Promise<void> {
  const { db } = ctx;
  const now = ctx.clock.now();
  for (const { id } of unheldEndpoints(db).all())
    await gradually(db, (tx, rows) => {
      const status = statusOf(tx, id);
      if (status === "deleted") return cancelWaiting(tx, id, now, rows);
      return status === "disabled" ? holdWaiting(tx, id, now, rows) : 0;
    });
  for (let row = nextHolding(db).get(""); row; row = nextHolding(db).get(row.id)) {
    const { id, status, expiresAt } = row;
    if (expiresAt <= now) await gradually(db, (tx, rows) => exhaustHeld(tx, id, now, rows));
    if (status === "enabled")
      await gradually(db, (tx, rows) => (statusOf(tx, id) === "enabled" ? resumeHeld(tx, id, now, rows) : 0));
    if (status === "deleted") await gradually(db, (tx, rows) => cancelWaiting(tx, id, now, rows));
  }
}

const endpointStatus = prepared((db) =>
  db.$client.prepare<Pick<EndpointRow, "status">, [string]>("SELECT status FROM webhook_endpoints WHERE id = ?"),
);
const statusOf = (db: Db, id: string) => endpointStatus(db).get(id)?.status;

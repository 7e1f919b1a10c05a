import type { Ctx } from "../../../context.ts";
import { type Db, prepared, type Tx } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { LONGEST_WAIT_MS } from "./retry_schedule.ts";

const nextEndpoint = prepared((db) =>
  db.$client.prepare<{ id: string }, [string]>(
    `SELECT endpoint_id AS id FROM webhook_deliveries
     WHERE next_at IS NOT NULL AND endpoint_id > ? ORDER BY endpoint_id LIMIT 1`,
  ),
);
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

const PAGE = 1_000; // endpoints; a few milliseconds

/**
 * Makes deliveries due whose time was computed while the clock was ahead (`dueTimeMs`): nothing would read their rows
 * until the wrong date comes.
 */
export async function redate({ db, clock }: Pick<Ctx, "db" | "clock">): Promise<void> {
  const now = clock.now();
  const latest = now + LONGEST_WAIT_MS;
  let looked = 0;
  for (let row = nextEndpoint(db).get(""); row; row = nextEndpoint(db).get(row.id)) {
    const { id } = row;
    if (isAhead(db).get(id, latest)) await gradually(db, (tx, rows) => bringBack(tx, id, now, rows));
    if (++looked % PAGE === 0) await new Promise(setImmediate);
  }
}

const bringBack = (tx: Tx | Db, endpointId: string, now: number, rows: number): number =>
  makeDue(tx).run(endpointId, now, now + LONGEST_WAIT_MS, rows).changes;

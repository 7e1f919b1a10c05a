/** The time that a deployment has waited for memory. The steady clock measures it, and its row keeps it over a restart. */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { SECOND_MS } from "../../../../lib/units.ts";
import { write } from "../../../../platform/db/db.ts";
import { hasWaitedTooLong } from "../policy.ts";
import { type DeploymentRow, deployments } from "../table.ts";
import type { Live } from "./fleet.ts";
import { rejectHeld } from "./held_requests.ts";
import * as moves from "./moves.ts";
import { unqueue } from "./replica.ts";

const SAVE_MS = 5 * SECOND_MS; // a kill forgets less of the wait than this

/**
 * Fails a queued deployment that has waited for memory too long, and returns true if it did. The time of a download
 * does not count, and neither does the time while the server was down.
 */
export function keepQueueTime(ctx: Ctx, row: DeploymentRow, live: Live): boolean {
  const waits = live.queuedAs !== undefined;
  if (row.status !== "queued" || (!waits && live.launching === 0)) {
    live.waitsSince = undefined;
    return false;
  }
  const now = ctx.clock.steady();
  live.waitsSince ??= now;
  const queuedMs = Math.round(row.queuedMs + now - live.waitsSince);
  if (waits && hasWaitedTooLong(queuedMs, row.queueTimeoutSeconds)) {
    giveUp(ctx, row, live, queuedMs);
    return true;
  }
  if (now - live.waitsSince >= SAVE_MS) {
    write(ctx.db, (tx) => tx.update(deployments).set({ queuedMs }).where(eq(deployments.id, row.id)).run());
    live.waitsSince = now;
  }
  return false;
}

function giveUp(ctx: Ctx, row: DeploymentRow, live: Live, queuedMs: number) {
  const why = row.queueReason === null ? "" : ` (${row.queueReason})`;
  const error = `No capacity: no memory was free within ${row.queueTimeoutSeconds} seconds${why}. Stop another deployment or raise queue_timeout_seconds, then start this one again`;
  const ended = { queuedMs, queueReason: null, nextAttemptAt: null, waking: false };
  if (!moves.move(ctx, row.id, "fail", { ...ended, error, errorCode: "no_capacity" })) return;
  ctx.log.warn("a deployment found no memory in time", { deployment: row.id, error });
  live.waitsSince = undefined;
  unqueue(ctx, live);
  rejectHeld(live, new AppError("no_capacity", `The deployment failed: ${error}`, { retryAfterSeconds: 30 }));
}

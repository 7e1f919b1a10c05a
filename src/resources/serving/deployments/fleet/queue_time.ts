/** The time that a deployment has waited for memory. The steady clock measures it, and its row keeps it over a restart. */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { SECOND_MS } from "../../../../lib/units.ts";
import { write } from "../../../../platform/db/db.ts";
import { hasWaitedTooLong } from "../policy.ts";
import { refOf } from "../switch.ts";
import { type DeploymentRow, deployments } from "../table.ts";
import type { Live } from "./fleet.ts";
import { rejectHeld } from "./held_requests.ts";
import * as moves from "./moves.ts";
import { replicaLost, unqueue } from "./replica.ts";

const SAVE_MS = 5 * SECOND_MS; // a kill forgets less of the wait than this

/**
 * Ends a wait for memory that has lasted too long, and returns true if it did: a queued deployment fails, and one that
 * wakes is parked again. The time of a download does not count, and neither does the time while the server was down.
 */
export function keepQueueTime(ctx: Ctx, row: DeploymentRow, live: Live): boolean {
  const waits = live.queuedAs !== undefined;
  if (row.waking && waits) return keepWakeTime(ctx, row, live);
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

/** Requests of a later burst keep the place in the queue, up to the limit of a first start. */
function keepWakeTime(ctx: Ctx, row: DeploymentRow, live: Live): boolean {
  const now = ctx.clock.steady();
  live.waitsSince ??= now;
  const { wakeTimeoutSeconds, queueTimeoutSeconds } = row;
  const waitedMs = now - live.waitsSince;
  const isOver =
    (live.held.size === 0 && waitedMs >= wakeTimeoutSeconds * SECOND_MS) ||
    hasWaitedTooLong(waitedMs, queueTimeoutSeconds === 0 ? 0 : Math.max(wakeTimeoutSeconds, queueTimeoutSeconds));
  if (!isOver) return false;
  live.waitsSince = undefined;
  unqueue(ctx, live);
  const why = row.queueReason === null ? "" : ` (it ${row.queueReason})`;
  const error = `The wake found no memory within ${Math.round(waitedMs / SECOND_MS)} seconds${why}. Stop another deployment, or set its min_replicas to 0`;
  replicaLost(ctx, live, { error, code: "no_capacity", canRetry: false, model: refOf(row) });
  return true;
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

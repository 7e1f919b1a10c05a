/** Stops and parks deployments: by request, when idle, or because the API key has spent its budget. */

import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { MINUTE_MS } from "../../../../lib/units.ts";
import * as budgets from "../../../money/billing/budget.ts";
import type { DeploymentRow } from "../table.ts";
import { inflightOf, type Live, liveOf } from "./fleet.ts";
import { rejectHeld } from "./held_requests.ts";
import * as moves from "./moves.ts";
import { retire, unqueue } from "./replica.ts";

export function endAll(ctx: Ctx, live: Live, reason: string): Promise<unknown> {
  unqueue(ctx, live);
  const running = [...live.replicas].filter((replica) => replica.state !== "leaving");
  return Promise.all(running.map((replica) => retire(ctx, replica, reason)));
}

/** Stops it and aborts its requests. Undefined: it was stopped or had failed. `error`: the reason that the row shows. */
export function halt(ctx: Ctx, { id }: DeploymentRow, { error }: { error: string | null }): DeploymentRow | undefined {
  const ended = { stoppedAt: ctx.clock.now(), parked: false, waking: false, queueReason: null, nextAttemptAt: null };
  const row = moves.move(ctx, id, "stop", { ...ended, error });
  if (!row) return undefined;
  const live = liveOf(ctx, id);
  const stopped = new AppError(
    "unsupported_state",
    `Deployment ${row.name} was stopped: start it with POST /v1/deployments/${id}/start`,
  );
  rejectHeld(live, stopped);
  for (const flight of live.flights) flight.abort(stopped);
  void endAll(ctx, live, "the deployment was stopped");
  return row;
}

/** The next request wakes it. Its processes end now. */
export function park(ctx: Ctx, live: Live, reason: string): Promise<unknown> {
  if (!moves.park(ctx, live.id)) return Promise.resolve();
  return endAll(ctx, live, `parked: ${reason}`);
}

const FINISH_MS = MINUTE_MS; // for requests that are being answered
const SPENT =
  "The API key that started this deployment has spent its monthly budget (monthly_budget_usd): start it with another key, or next month";

/**
 * Ends a deployment whose key is out of budget, and returns true if it did. A deployment that may scale to zero is
 * parked, so that a request with another key wakes it; any other is stopped. Requests have a minute to finish.
 */
export function keepToBudget(ctx: Ctx, row: DeploymentRow, live: Live): boolean {
  const { workspaceId, apiKeyId: keyId } = row;
  if (row.upSince === null || !row.costPerHourMicros || keyId === null) return false;
  const budget = budgets.tightestBudget(ctx, { workspaceId, keyId });
  if (!budget || budgets.leftOf(budget) > 0) {
    live.overBudgetSince = undefined;
    return false;
  }
  live.overBudgetSince ??= ctx.clock.now();
  if (inflightOf(live) > 0 && ctx.clock.now() - live.overBudgetSince < FINISH_MS) return false;
  live.overBudgetSince = undefined;
  ctx.log.info("a deployment was ended: its API key has spent its budget", { deployment: row.id, key: keyId });
  if (row.minReplicas === 0) void park(ctx, live, "its API key has spent its budget");
  else halt(ctx, row, { error: SPENT });
  return true;
}

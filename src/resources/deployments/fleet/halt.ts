/** Ends of a deployment that are not its own: by request, or because its API key has spent its budget. */

import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import * as budgets from "../../billing/budget.ts";
import type { DeploymentRow } from "../table.ts";
import { inflightOf, type Live, liveOf, turnAway } from "./fleet.ts";
import * as moves from "./moves.ts";
import { retire, unqueue } from "./replica.ts";

export function endAll(ctx: Ctx, live: Live, reason: string): Promise<unknown> {
  unqueue(ctx, live);
  const leaving = [...live.replicas].filter((replica) => replica.state !== "leaving");
  return Promise.all(leaving.map((replica) => retire(ctx, replica, reason)));
}

/** Stops it and cuts off its requests. Undefined: it was stopped or had failed. `error`: the reason it shows. */
export function halt(ctx: Ctx, { id }: DeploymentRow, { error }: { error: string | null }): DeploymentRow | undefined {
  const ended = { stoppedAt: ctx.clock.now(), parked: false, waking: false, queueReason: null, nextAttemptAt: null };
  const row = moves.move(ctx, id, "stop", { ...ended, error });
  if (!row) return undefined;
  const live = liveOf(ctx, id);
  const stopped = new AppError("unsupported_state", `Deployment ${row.name} was stopped`);
  turnAway(live, stopped);
  for (const flight of live.flights) flight.abort(stopped);
  void endAll(ctx, live, "the deployment was stopped");
  return row;
}

/** From here on a request wakes it. The processes end at once. */
export function park(ctx: Ctx, live: Live, reason: string): Promise<unknown> {
  if (!moves.park(ctx, live.id)) return Promise.resolve();
  return endAll(ctx, live, `parked: ${reason}`);
}

const FINISH_MS = 60_000; // for requests that are being answered
const SPENT =
  "The API key that started this deployment has spent its monthly budget (monthly_budget_usd): start it with another key, or next month";

/**
 * Ends a deployment whose key is out of budget; whether it did. One that may scale to zero is parked, so that a request
 * with another key wakes it; any other is stopped. Requests have a minute to finish.
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
  ctx.log.info("a deployment ends: its API key has spent its budget", { deployment: row.id, key: keyId });
  if (row.minReplicas === 0) void park(ctx, live, "its API key has spent its budget");
  else halt(ctx, row, { error: SPENT });
  return true;
}

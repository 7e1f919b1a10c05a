/** Parks and wakes a deployment by request, without waiting for its idle timeout or for a chat. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import type * as budgets from "../../money/billing/budget.ts";
import { inflightOf, liveOf } from "./fleet/fleet.ts";
import * as halt from "./fleet/halt.ts";
import * as moves from "./fleet/moves.ts";
import { mustAffordWake, mustGet } from "./service.ts";
import type { DeploymentRow } from "./table.ts";

/** A parked deployment stays as it is. Requests are never aborted: the caller waits for them, or stops the deployment. */
export function park(ctx: Ctx, workspaceId: string, id: string): DeploymentRow {
  const row = mustGet(ctx, workspaceId, id);
  if (row.parked) return row;
  if (row.status !== "serving")
    throw new AppError(
      "unsupported_state",
      `Deployment ${row.name} is ${row.status}: only a serving one can be parked`,
    );
  if (row.minReplicas > 0)
    throw new AppError(
      "unsupported_state",
      `Deployment ${row.name} keeps at least ${row.minReplicas} ${row.minReplicas === 1 ? "replica" : "replicas"} (min_replicas): set min_replicas to 0 first, or stop it`,
    );
  const live = liveOf(ctx, id);
  const open = inflightOf(live);
  if (open > 0)
    throw new AppError(
      "unsupported_state",
      `Deployment ${row.name} answers ${open} ${open === 1 ? "request" : "requests"} now: park it when they are done`,
    );
  void halt.park(ctx, live, "by request");
  return moves.current(ctx.db, id) ?? row;
}

/** Loads a parked deployment. The key of `payer` pays from here on. One that is not parked stays as it is. */
export function wake(ctx: Ctx, payer: budgets.Payer, id: string): DeploymentRow {
  const row = mustGet(ctx, payer.workspaceId, id);
  if (row.status === "stopped" || row.status === "failed")
    throw new AppError(
      "unsupported_state",
      `Deployment ${row.name} is ${row.status}: start it with POST /v1/deployments/${id}/start`,
    );
  if (!row.parked) return row;
  mustAffordWake(ctx, payer, row);
  const woken = moves.wake(ctx, id, payer.keyId);
  ctx.wake("deployments.reconcile");
  return woken ?? row;
}

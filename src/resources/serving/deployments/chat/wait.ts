/** A request that finds no replica waits for one, and wakes a parked deployment. */
import { AppError } from "../../../../lib/errors.ts";
import { MINUTE_MS } from "../../../../lib/units.ts";
import { counter } from "../../../../platform/metrics.ts";
import * as billing from "../../../money/billing/service.ts";
import { isReachable, readyOf } from "../fleet/fleet.ts";
import { hold } from "../fleet/held_requests.ts";
import * as moves from "../fleet/moves.ts";
import type { DeploymentRow } from "../table.ts";
import type { Flight } from "./flight.ts";

const heldRequests = counter("verk_requests_held_total", "Requests that had to wait for a replica", []);
const wakes = counter("verk_deployment_wakes_total", "Times that a request woke a parked deployment", []);

export function mustBeOpen({ id, name, status, error }: DeploymentRow) {
  if (status !== "stopped" && status !== "failed") return;
  const why = error === null ? "" : ` (${error.split("\n", 1)[0]})`;
  const fix = `start it with POST /v1/deployments/${id}/start`;
  throw new AppError("unsupported_state", `Deployment ${name} is ${status}${why}: ${fix}`);
}

/** The replicas are there, and no link leads to them: the client asks again instead of waiting for the node. */
function mustBeReachable({ row, live }: Flight) {
  const ready = readyOf(live);
  if (ready.length === 0 || ready.some(isReachable)) return;
  throw new AppError(
    "region_unreachable",
    `The region of deployment ${row.name} cannot be reached now, and its replica goes on: try again soon`,
    { retryAfterSeconds: 5 },
  );
}

/** Resolves once the flight has a replica. A burst loads the model once: only its first request wakes the deployment. */
export function waitFor(flight: Flight): Promise<true> {
  const { ctx, row, call } = flight;
  const { workspaceId } = row;
  const fresh = moves.current(ctx.db, row.id) ?? row;
  mustBeOpen(fresh);
  mustBeReachable(flight);
  const { costPerHourMicros: ratePerHourMicros } = fresh;
  const aMinute = { ratePerHourMicros, micros: billing.costOf(ratePerHourMicros, MINUTE_MS) };
  if (fresh.parked) billing.mustAfford(ctx, { workspaceId, keyId: call.keyId }, aMinute);
  const held = hold(ctx, fresh, flight.signal).then((replica) => {
    flight.attach(replica);
    return true as const;
  });
  held.catch(() => {}); // its reader, if there is one, gets the error
  flight.waitsFor(fresh.parked || fresh.waking ? "wake" : "queue");
  heldRequests.add(ctx.db, workspaceId, []);
  if (!fresh.parked || !moves.wake(ctx, row.id, call.keyId)) return held;
  wakes.add(ctx.db, workspaceId, []);
  ctx.wake("deployments.reconcile");
  return held;
}

/** A deployment in words. Pure. */
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { percent, plural } from "../../data/format.ts";

type Said = Pick<Deployment, "status" | "parked" | "load" | "error" | "last_error" | "replicas">;

/** `status`: for the pill. `reason`: why, in one line. */
export function stateOf(deployment: Said): { status: string; detail?: string; reason?: string } {
  const { status, parked, load, error, last_error: last, replicas } = deployment;
  if (status === "serving" && parked)
    return { status: "parked", reason: firstLine(last) ?? "Holds no memory. The next request wakes it." };
  if (status === "serving") {
    const ready = `${plural(replicas.ready, "replica")} ready`;
    return { status, detail: replicas.desired > replicas.ready ? `${ready}, ${replicas.desired} wanted` : ready };
  }
  if (status === "queued") return withReason(status, load.reason ?? "Waits for its turn");
  if (status === "provisioning")
    return withReason("starting", load.reason ?? undefined, `${load.stage} ${percent(load.progress)}`);
  if (status === "failed") return withReason(status, firstLine(error));
  return withReason(status, firstLine(last));
}

const withReason = (status: string, reason: string | undefined, detail?: string) => ({
  status,
  ...(detail === undefined ? {} : { detail }),
  ...(reason === undefined ? {} : { reason }),
});

const firstLine = (text: string | null): string | undefined => text?.split("\n", 1)[0];

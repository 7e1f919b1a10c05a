/** Decides what the standby process is prepared for. */
import type { Ctx } from "../../../context.ts";
import * as models from "../../models/service.ts";
import type { DeploymentRow } from "../table.ts";
import { liveOf } from "./fleet.ts";
import { usableParts } from "./parts.ts";

/**
 * `cards`: UUIDs of the GPUs that the process sees; none: the CPU. `model`: the only model that may wake, or undefined. A
 * process that has read a model serves no other one: it may belong to another workspace.
 */
export type Wish = { cards: readonly string[]; model: string | undefined; sleeper: DeploymentRow };

/** `sleepers`: the parked deployments. Undefined: no standby process is needed, or nothing is known of its GPU yet. */
export function wantedFor(ctx: Ctx, sleepers: readonly DeploymentRow[]): Wish | undefined {
  const [sleeper] = sleepers;
  if (!sleeper) return undefined;
  const cards = liveOf(ctx, sleeper.id).cards ?? (sleeper.gpuType === "cpu" ? [] : undefined);
  if (!cards) return undefined;
  const isOwn = cards.length === 1 && ctx.config.serving.decoder !== "library"; // the library reads a model in one go
  const [path, ...others] = isOwn ? new Set(sleepers.map((row) => pathOf(ctx, row))) : [];
  return { cards, model: others.length === 0 ? path : undefined, sleeper };
}

/** Undefined: the file is not here, or the deployment has an adapter, which the library serves. */
function pathOf(ctx: Ctx, row: DeploymentRow): string | undefined {
  const parts = usableParts(ctx, row);
  return "ready" in parts && parts.ready.adapter === null ? models.pathOf(ctx, parts.ready.base) : undefined;
}

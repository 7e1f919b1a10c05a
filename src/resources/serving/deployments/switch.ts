/**
 * Pure decisions about a switch to another model. `model` of the row is the model that answers requests. `nextModel`
 * waits beside it until one replica of it is ready, then it takes over in one commit. A model that cannot be loaded is
 * dropped, and the present one goes on. Without a running replica there is nothing to wait for: the row changes at once.
 */
import type { DeploymentRow, ModelRef } from "./table.ts";

type Switchable = ModelRef & Pick<DeploymentRow, "nextModel" | "previousModel">;

export const refOf = ({ model, modelId, source, checkpoint }: ModelRef): ModelRef => ({
  model,
  modelId,
  source,
  checkpoint,
});

/** `later`: once it is ready. `cancel`: the switch that was under way ends. */
export type Plan = { when: "now" | "later" | "cancel" | "never"; patch: Partial<Switchable> };

/** `isAnswering`: a replica of the present model is ready. */
export function planSwitch(row: Switchable, to: ModelRef, isAnswering: boolean): Plan {
  const isSame = to.modelId === row.modelId;
  if (isSame) return { when: row.nextModel ? "cancel" : "never", patch: { ...to, nextModel: null } };
  if (isAnswering) return { when: "later", patch: { nextModel: to } };
  return { when: "now", patch: takeOver(row, to) };
}

/** The columns after the switch. */
export const takeOver = (row: ModelRef, to: ModelRef) => ({ ...to, nextModel: null, previousModel: refOf(row) });

/** The deployment as it will be after the switch that is under way. */
export const afterSwitch = (row: DeploymentRow): DeploymentRow =>
  row.nextModel === null ? row : { ...row, ...takeOver(row, row.nextModel) };

export type Role = "present" | "next" | "neither";

/** The part of a replica with this model. A switch may have been cancelled or replaced while the replica loaded. */
export function roleOf(row: Switchable | undefined, modelId: string | null): Role {
  if (row?.nextModel && row.nextModel.modelId === modelId) return "next";
  return row?.modelId === modelId ? "present" : "neither";
}

/** `fits`: once the replicas of the present model have ended. `isAnswering`: at least one of them is ready. */
export type Shortage = { fits: boolean; isAnswering: boolean };

/**
 * The next model finds no memory beside the present one. `replace`: the present replicas end first, and requests wait.
 * `wait`: for the end of these replicas, or of other work. `drop`: the present model needs its memory back.
 */
export function onShortage({ fits, isAnswering }: Shortage): "replace" | "wait" | "drop" {
  if (isAnswering) return fits ? "replace" : "wait";
  return fits ? "wait" : "drop";
}

/**
 * Times what is paid for by the steady clock. The time of a run is the time of day when it began plus the steady time
 * since. So a change of the time of day neither charges time that did not pass nor forgets time that did.
 */
import type { Ctx } from "../../../context.ts";
import { afterCommit, type Tx } from "../../../platform/db/db.ts";

declare module "../../../context.ts" {
  interface State {
    readonly billing: BillingState;
  }
}

/** The state of billing that lives in this process (`ctx.state.billing`). */
export class BillingState {
  /** Job, deployment or machine → the time of day less the steady time when its run began. */
  readonly runs = new Map<string, { readonly offsetMs: number }>();
}

export type Timed = Pick<Ctx, "clock" | "state">;

/** The run of a job, the service of a deployment or the life of a machine begins now. */
export function beginRun({ clock, state }: Timed, id: string) {
  state.billing.runs.set(id, { offsetMs: clock.now() - clock.steady() });
}

/** Epoch ms, to compare with the row's beginning. A run that this process did not begin has only the time of day. */
export function runTime({ clock, state }: Timed, id: string): number {
  const run = state.billing.runs.get(id);
  return run ? Math.round(clock.steady() + run.offsetMs) : clock.now();
}

/** Called in the commit that ends the run. A commit that fails leaves the run as it was. */
export function endRun({ state }: Pick<Ctx, "state">, tx: Tx, id: string) {
  const run = state.billing.runs.get(id);
  afterCommit(tx, () => {
    if (state.billing.runs.get(id) === run) state.billing.runs.delete(id);
  });
}

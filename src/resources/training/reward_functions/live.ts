import type { Config } from "../../../platform/config/config.ts";
import { Semaphore } from "../../../platform/semaphore.ts";

declare module "../../../context.ts" {
  interface State {
    readonly rewards: RewardsState;
  }
}

const MOST_WAITING_EACH = 256;

/** The state of reward functions that lives in this process (`ctx.state.rewards`). */
export class RewardsState {
  /** The only limit on reward processes. Endless code of one workspace leaves a permit to the others. */
  readonly processes: Semaphore;

  constructor({ sandbox: { processes: permits } }: Pick<Config, "sandbox">) {
    this.processes = new Semaphore({ name: "reward calls", permits, mostWaitingEach: MOST_WAITING_EACH });
  }
}

import type { Config } from "../../platform/config/config.ts";
import { Semaphore } from "../../platform/semaphore.ts";

const MAX_WAITING = 256;

/** The state of reward functions that lives in this process (`ctx.state.rewards`). */
export class RewardsState {
  /** The only limit on reward processes. */
  readonly processes: Semaphore;
  /** One permit is kept for other workspaces, so that endless code of one workspace does not shut them out. */
  readonly mostEach: number;

  constructor({ sandbox: { processes: permits } }: Pick<Config, "sandbox">) {
    this.mostEach = Math.max(1, permits - 1);
    const { mostEach } = this;
    this.processes = new Semaphore({ permits, maxWaiting: MAX_WAITING, keepsOne: true, mostEach });
  }
}

import type { Config } from "../../platform/config/config.ts";
import { Semaphore } from "../../platform/semaphore.ts";

const MAX_WAITING = 256;

/** The state of reward functions that lives in this process (`ctx.state.rewards`). */
export class RewardsState {
  /** One process always stays for other workspaces, so that endless code of one workspace does not shut them out. */
  readonly processes: Semaphore;

  constructor({ sandbox: { processes: permits } }: Pick<Config, "sandbox">) {
    const mostEach = Math.max(1, permits - 1);
    this.processes = new Semaphore({ permits, maxWaiting: MAX_WAITING, keepsOne: true, mostEach });
  }
}

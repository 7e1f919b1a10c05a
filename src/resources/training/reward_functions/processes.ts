/** Permits for the reward processes of one run. A run gets all its permits at once, in fair turns by workspace. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import type { Caller } from "../../../platform/semaphore.ts";

const WAIT_MS = MINUTE_MS;

/** 422 if one workspace may never hold as many processes. */
export function mustFit(ctx: Pick<Ctx, "state">, count: number) {
  const { permits, mostEach } = ctx.state.rewards.processes;
  if (count <= mostEach) return;
  throw new AppError(
    "schema",
    `reward_functions: has ${count} rewards, and one workspace may use ${mostEach} of the ${permits} reward processes of this server (sandbox.processes): send at most ${mostEach}`,
    { param: "/reward_functions" },
  );
}

/** Holds `count` permits during `work`. 503 after a minute, or 429 at once if too many callers of the workspace wait. */
export async function withProcesses<T>(ctx: Ctx, caller: Caller, count: number, work: () => Promise<T>): Promise<T> {
  mustFit(ctx, count);
  const { processes } = ctx.state.rewards;
  const timeout = { clock: ctx.clock, ms: WAIT_MS };
  const release = await processes.acquire(caller, { permits: count, timeout });
  if (!release)
    throw new AppError(
      "no_capacity",
      `The reward processes that this workspace may use are busy (${processes.mostEach} of ${processes.permits}): try again`,
      { retryAfterSeconds: 5 },
    );
  try {
    return await work();
  } finally {
    release();
  }
}

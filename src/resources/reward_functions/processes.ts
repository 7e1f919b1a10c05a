/** Reward processes for one run: all that it needs at once, in fair turns. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { oncePer } from "../../lib/once_per.ts";
import { type Caller, Semaphore } from "../../platform/semaphore.ts";

const MAX_WAITING = 256;
const PATIENCE_MS = 60_000;

/** One process always stays for other workspaces, so that endless code of one workspace does not shut them out. */
const mostOf = (processes: number) => Math.max(1, processes - 1);

const permitsOf = oncePer(
  ({ sandbox: { processes } }: Ctx["config"]) =>
    new Semaphore({ permits: processes, maxWaiting: MAX_WAITING, keepsOne: true, mostEach: mostOf(processes) }),
);

/** Holds `count` permits while it works. Waits a minute at most; then, or where the line is long, 503. */
export async function holding<T>(ctx: Ctx, caller: Caller, count: number, work: () => Promise<T>): Promise<T> {
  const { processes } = ctx.config.sandbox;
  const most = mostOf(processes);
  if (count > most)
    throw new AppError(
      "schema",
      `reward_functions: has ${count} rewards, and one workspace may use ${most} of the ${processes} reward processes of this server (sandbox.processes): send ${most} at most`,
      { param: "/reward_functions" },
    );
  const timeout = { clock: ctx.clock, ms: PATIENCE_MS };
  const release = await permitsOf(ctx.config).acquire(caller, { permits: count, timeout });
  if (!release)
    throw new AppError(
      "no_capacity",
      `The reward processes that this workspace may use are busy (${most} of ${processes}): try again`,
      {
        retryAfterSeconds: 5,
      },
    );
  try {
    return await work();
  } finally {
    release();
  }
}

/** Reward processes for one run: all that it needs at once, in fair turns. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { oncePer } from "../../lib/once_per.ts";
import { type Asker, createPlaces, takeWithin } from "../../platform/places.ts";

const MAX_WAITING = 256;
const PATIENCE_MS = 60_000;

const placesOf = oncePer(({ sandbox }: Ctx["config"]) =>
  createPlaces({ total: sandbox.processes, maxWaiting: MAX_WAITING }),
);

/** Holds `count` places while it works. Waits a minute at most; then, or where the line is long, 503. */
export async function holding<T>(ctx: Ctx, asker: Asker, count: number, work: () => Promise<T>): Promise<T> {
  const { processes } = ctx.config.sandbox;
  if (count > processes)
    throw new AppError("schema", `This server runs ${processes} reward processes: send ${processes} rewards at most`, {
      param: "/reward_functions",
    });
  const patience = { clock: ctx.clock, ms: PATIENCE_MS };
  const giveBack = await takeWithin(patience, placesOf(ctx.config), asker, count);
  if (!giveBack)
    throw new AppError("no_capacity", `All ${processes} reward processes are busy: try again`, {
      retryAfterSeconds: 5,
    });
  try {
    return await work();
  } finally {
    giveBack();
  }
}

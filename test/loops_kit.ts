import type { Ctx } from "../src/context.ts";
import { loops } from "../src/loops.ts";
import type { LoopName } from "../src/schedules.ts";

/** One tick of a loop with the clock that the server gives to it. */
export async function tickOf(ctx: Ctx, name: LoopName): Promise<void> {
  await loops(ctx)
    .find((loop) => loop.name === name)
    ?.tick(new AbortController().signal);
}

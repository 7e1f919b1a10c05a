/** Writes down the trusted time, so that a restart does not believe a clock that is far ahead. */
import { eq } from "drizzle-orm";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { isoTime } from "../../../lib/time.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import { type Db, write } from "../../../platform/db/db.ts";
import { whyNotReady } from "../../../platform/db/trouble.ts";
import { type StoredTime, WAIT_MS } from "../../../platform/trusted_clock.ts";
import { settings } from "../../access/setup/table.ts";

const CLOCK = "clock";
const StoredClock = z.object({ trusted: z.number(), waited: z.number() });
const WRITE_MS = MINUTE_MS;

function kept(db: Db): StoredTime | undefined {
  const row = db.select().from(settings).where(eq(settings.key, CLOCK)).get();
  return row && StoredClock.parse(JSON.parse(row.value));
}

export function begin(ctx: Ctx) {
  ctx.state.trustedClock.begin(kept(ctx.db));
}

/** The loop `clock.observe`. After trouble with the disk it also is the write that shows that writes succeed again. */
export function observe(ctx: Ctx) {
  const { clockNote, trustedClock } = ctx.state;
  const { trusted, waited } = trustedClock.observe();
  if (waited > 0 !== clockNote.isSuspect) {
    clockNote.isSuspect = waited > 0;
    if (waited > 0)
      ctx.log.warn(
        `The clock is ahead of what the uptime explains. Until ${WAIT_MS / (60 * MINUTE_MS)} hours of uptime have passed, old data is kept and sessions do not expire. Check the clock.`,
        { clock: isoTime(ctx.clock.now()), expected: isoTime(trusted) },
      );
    else ctx.log.info("the clock is believed again", { clock: isoTime(ctx.clock.now()) });
  }
  const steady = ctx.clock.steady();
  if (steady - clockNote.writtenAt < WRITE_MS && whyNotReady(ctx.db) === undefined) return;
  clockNote.writtenAt = steady;
  const fact = { value: JSON.stringify({ trusted, waited }), updatedAt: ctx.clock.now() };
  write(ctx.db, (tx) =>
    tx
      .insert(settings)
      .values({ key: CLOCK, ...fact })
      .onConflictDoUpdate({ target: settings.key, set: fact })
      .run(),
  );
}

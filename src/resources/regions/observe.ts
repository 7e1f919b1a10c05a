/** The loop `regions.observe`: asks each node once a minute what it has. A slow node does not hold up the others. */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { MINUTE_MS } from "../../lib/units.ts";
import { write } from "../../platform/db/db.ts";
import { providerOf } from "./provider.ts";
import { type RegionRow, regions } from "./table.ts";

export function observe(ctx: Ctx) {
  const { askedAt, asking } = ctx.state.regions;
  const now = ctx.clock.now();
  for (const row of ctx.db.select().from(regions).all()) {
    if (asking.has(row.id) || now - (askedAt.get(row.id) ?? Number.NEGATIVE_INFINITY) < MINUTE_MS) continue;
    askedAt.set(row.id, now);
    const question = ask(ctx, row)
      .catch((error) => ctx.log.error("cannot observe a region", { region: row.id, error }))
      .finally(() => asking.delete(row.id));
    asking.set(row.id, question);
  }
}

async function ask(ctx: Ctx, row: RegionRow): Promise<void> {
  try {
    const info = await providerOf(ctx, row).info();
    store(ctx, row, { info, fault: null, seenAt: ctx.clock.now() });
  } catch (error) {
    store(ctx, row, { fault: error instanceof Error ? error.message : String(error) });
  }
}

/** Does nothing after the end of the server, or if the region was deleted meanwhile. */
function store(ctx: Ctx, { id }: RegionRow, patch: Partial<RegionRow>) {
  if (ctx.closing.aborted) return;
  write(ctx.db, (tx) => tx.update(regions).set(patch).where(eq(regions.id, id)).run());
}

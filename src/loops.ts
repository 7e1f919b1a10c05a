import type { Ctx } from "./context.ts";
import { prune } from "./events/consume.ts";
import { pruneIdempotencyKeys } from "./http/idempotency.ts";
import type { LoopSpec } from "./platform/loop.ts";
import { recordUses } from "./resources/api_keys/authenticate.ts";

const HOUR_MS = 3_600_000;

/** The table of background loops: name, schedule, tick. */
export const loops = (ctx: Ctx): LoopSpec[] => [
  { name: "api_keys.record_uses", schedule: { everyMs: 30_000 }, tick: () => recordUses(ctx.db) },
  {
    name: "events.prune",
    schedule: "17 3 * * *",
    tick: async () => void (await prune(ctx.db, ctx.clock.now() - ctx.config.events.retention_days * 24 * HOUR_MS)),
  },
  {
    name: "idempotency.prune",
    schedule: "7 * * * *",
    tick: async () =>
      void (await pruneIdempotencyKeys(ctx.db, ctx.clock.now() - ctx.config.http.idempotency_hours * HOUR_MS)),
  },
];

/**
 * All that can be told in numbers, as the Prometheus text format has it: what the database and the process know at this
 * moment, and what was counted as it happened (platform/metrics.ts). A scrape reads, and waits for nobody.
 */
import type { Ctx, Principal } from "../../context.ts";
import { oncePer } from "../../lib/once_per.ts";
import type { Db } from "../../platform/db/db.ts";
import { allFamilies, allSeries, type Series } from "../../platform/metrics.ts";
import * as gpu from "../gpu/service.ts";
import { balances, deliveries, devices, leases, server, storage } from "./machine_room.ts";
import { type Family, familyText, labelText, type Sample } from "./prometheus.ts";
import type { View } from "./rows.ts";
import { load, store } from "./store.ts";
import { jobs, queues, serving } from "./work.ts";

/** Where to add one: what is in rows or in memory here, what is counted as it happens where it happens. */
const COLLECTORS: readonly ((ctx: Ctx, view: View) => Family[])[] = [
  counted,
  serving,
  jobs,
  queues,
  devices,
  leases,
  deliveries,
  balances,
  storage,
  server,
];

const scrapes = oncePer((_db: Db) => ({ at: Number.NEGATIVE_INFINITY }));

/** A key sees its own workspace; one of the operator sees them all, and what is nobody's. */
export function scrape(ctx: Ctx, { workspaceId, scopes }: Principal): string {
  const view: View = { workspaceId: scopes.includes("admin") ? null : workspaceId };
  scrapes(ctx.db).at = ctx.clock.now();
  return familyText(COLLECTORS.flatMap((collect) => collect(ctx, view)));
}

function counted({ db }: Ctx, { workspaceId }: View): Family[] {
  load(db);
  return allFamilies().map(({ name, help, labels, bounds }) => ({
    name,
    help,
    type: bounds.length === 0 ? "counter" : "histogram",
    samples: allSeries(db, name)
      .filter((series) => (workspaceId === null || series.workspaceId === workspaceId) && series.stored.some(Boolean))
      .map((series) => sampleOf(labels, series)),
  }));
}

function sampleOf(names: readonly string[], { workspaceId, labels: values, stored, family }: Series): Sample {
  const pairs = names.map((name, i) => [name, values[i] ?? ""]);
  const labels = labelText({ workspace: workspaceId, ...Object.fromEntries(pairs) });
  const [first = 0, ...counts] = stored;
  return { labels, value: family.bounds.length === 0 ? first : { bounds: family.bounds, counts, sum: first } };
}

const WATCHED_MS = 300_000;

/** The loop. Devices are looked at only for those who read of them. */
export async function tick(ctx: Ctx): Promise<void> {
  if (ctx.clock.now() - scrapes(ctx.db).at < WATCHED_MS) gpu.known(ctx);
  await store(ctx);
}

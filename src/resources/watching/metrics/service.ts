/**
 * Metrics in the Prometheus text format: what the database and the process know at this moment, and what was counted as
 * it happened (platform/metrics.ts). A scrape only reads, and waits for nothing.
 */
import type { Ctx, Principal } from "../../../context.ts";
import { allFamilies, allSeries, type Series } from "../../../platform/metrics.ts";
import * as gpu from "../../machines/gpu/service.ts";
import { balances, deliveries, devices, leases, machines, server, storage } from "./machine_room.ts";
import { type Family, familyText, labelText, type Sample } from "./prometheus.ts";
import type { View } from "./rows.ts";
import { load, store } from "./store.ts";
import { jobs, queues, serving } from "./work.ts";

/** Add a collector here for rows and memory. Count events where they happen, with `counter()`. */
const COLLECTORS: readonly ((ctx: Ctx, view: View) => Family[])[] = [
  counted,
  serving,
  jobs,
  queues,
  devices,
  leases,
  machines,
  deliveries,
  balances,
  storage,
  server,
];

/** A key sees its own workspace. An operator's key sees all workspaces and the server. */
export function scrape(ctx: Ctx, { workspaceId, scopes }: Principal): string {
  const view: View = { workspaceId: scopes.includes("admin") ? null : workspaceId };
  return familyText(familiesFor(ctx, view));
}

export function familiesFor(ctx: Ctx, view: View): Family[] {
  ctx.state.metrics.scrapedAt = ctx.clock.now();
  return COLLECTORS.flatMap((collect) => collect(ctx, view));
}

function counted(ctx: Ctx, { workspaceId }: View): Family[] {
  load(ctx);
  return allFamilies().map(({ name, help, labels, bounds }) => ({
    name,
    help,
    type: bounds.length === 0 ? "counter" : "histogram",
    samples: allSeries(ctx.db, name)
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

/** The loop. Devices are probed only while metrics are scraped. */
export async function tick(ctx: Ctx): Promise<void> {
  if (ctx.clock.now() - ctx.state.metrics.scrapedAt < WATCHED_MS) gpu.known(ctx);
  await store(ctx);
}

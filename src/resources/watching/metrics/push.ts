/** Sends all metrics to a collector (`metrics.otlp_endpoint`). */
import { min } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import { VERSION } from "../../../lib/version.ts";
import { workspaces } from "../../access/workspaces/table.ts";
import { otlpBody } from "./otlp.ts";
import { familiesFor } from "./service.ts";

const TIMEOUT_MS = 10 * SECOND_MS;
const ANSWER_BYTES = 4_096;

/** One tick. It throws if the collector did not take the metrics, so the loop logs it and waits longer. */
export async function push(ctx: Ctx, signal: AbortSignal): Promise<void> {
  const { otlp_endpoint: endpoint, otlp_headers: extra, otlp_seconds: seconds } = ctx.config.metrics;
  const nowMs = ctx.clock.now();
  if (endpoint === "" || nowMs - ctx.state.metrics.pushedAt < seconds * SECOND_MS) return;
  ctx.state.metrics.pushedAt = nowMs;
  const first = ctx.db
    .select({ at: min(workspaces.createdAt) })
    .from(workspaces)
    .get();
  const body = otlpBody(familiesFor(ctx, { workspaceId: null }), VERSION, { nowMs, startMs: first?.at ?? nowMs });
  const { status } = await ctx.dial(addressOf(endpoint), {
    method: "POST",
    headers: { "content-type": "application/json", ...headersOf(extra) },
    body,
    timeoutMs: TIMEOUT_MS,
    maxResponseBytes: ANSWER_BYTES,
    allowHttp: true,
    signal,
  });
  if (status >= 300) throw new Error(`The collector of metrics.otlp_endpoint answered ${status}`);
}

/** An address without a path is that of a collector: OTLP names the path. */
export function addressOf(endpoint: string): URL {
  const url = new URL(endpoint);
  if (url.pathname === "/") url.pathname = "/v1/metrics";
  return url;
}

function headersOf(text: string): Record<string, string> {
  const pairs = text === "" ? [] : text.split(",").map((pair) => pair.trim());
  return Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
}

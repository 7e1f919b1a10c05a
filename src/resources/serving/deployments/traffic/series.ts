/** Traffic of a deployment over time: equal slots with rates, tokens, waits and percentiles of times. */
import { and, asc, eq, gt } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { isoTime } from "../../../../lib/time.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../../../../lib/units.ts";
import { type DeploymentRow, deploymentTraffic, type TrafficRow } from "../table.ts";
import { addCounts, type Counts, mergeCounts, percentilesOf } from "./buckets.ts";
import type { DeploymentTraffic, TrafficPoint } from "./schema.ts";

/** The longest period of a row, in hours, and the length of its slots in minutes. */
const STEPS = [
  [1, 1],
  [6, 5],
  [24, 15],
  [7 * 24, 60],
  [Number.POSITIVE_INFINITY, 360],
] as const;

const stepOf = (hours: number): number => STEPS.find(([most]) => hours <= most)?.[1] ?? 360;

type Sum = Omit<TrafficRow, "deploymentId" | "minutes" | "minute" | "answerMs" | "firstTokenMs"> & {
  answer: Counts;
  firstToken: Counts;
};

const blank = (): Sum => ({
  requests: 0,
  errors: 0,
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens: 0,
  waitedMs: 0,
  mostOpen: 0,
  mostWaiting: 0,
  answer: new Map(),
  firstToken: new Map(),
});

const SUMMED = ["requests", "errors", "promptTokens", "cachedTokens", "completionTokens", "waitedMs"] as const;
const HIGHEST = ["mostOpen", "mostWaiting"] as const;
type Figures = Pick<Sum, (typeof SUMMED)[number] | (typeof HIGHEST)[number]>;

function addFigures(sum: Sum, more: Figures) {
  for (const key of SUMMED) sum[key] += more[key];
  for (const key of HIGHEST) sum[key] = Math.max(sum[key], more[key]);
}

function add(sum: Sum, row: TrafficRow) {
  addFigures(sum, row);
  addCounts(sum.answer, row.answerMs);
  addCounts(sum.firstToken, row.firstTokenMs);
}

function merge(sum: Sum, slot: Sum) {
  addFigures(sum, slot);
  mergeCounts(sum.answer, slot.answer);
  mergeCounts(sum.firstToken, slot.firstToken);
}

/** Slots begin at whole multiples of their length; the last one is not over. */
export async function trafficOf(ctx: Ctx, { id }: DeploymentRow, hours: number): Promise<DeploymentTraffic> {
  const now = ctx.clock.now();
  const step = stepOf(hours);
  const length = step * MINUTE_MS;
  const last = Math.floor(now / length) * length;
  const first = last - (Math.ceil((hours * HOUR_MS) / length) - 1) * length;
  const slots = new Map<number, Sum>();
  for (let at = first; at <= last; at += length) slots.set(at, blank());
  const total = blank();
  const turn = takingTurns();
  for (const row of rowsSince(ctx, id, step < 60 ? 1 : 60, first)) {
    await turn();
    const slot = slots.get(Math.floor((row.minute * MINUTE_MS) / length) * length);
    if (slot) add(slot, row); // a row may be newer than `now`, if the clock was set back
  }
  for (const slot of slots.values()) merge(total, slot);
  return {
    object: "deployment_traffic",
    deployment_id: id,
    hours,
    step_seconds: length / SECOND_MS,
    total: present(total, first, now),
    data: [...slots].map(([at, sum]) => present(sum, at, Math.min(now, at + length))),
  };
}

const PAGE = 100;

/** Rows have long texts: few are read at once. */
function* rowsSince(ctx: Ctx, id: string, minutes: number, since: number): Generator<TrafficRow> {
  const { deploymentId, minutes: length, minute } = deploymentTraffic;
  for (let after = Math.floor(since / MINUTE_MS) - 1; ; ) {
    const rows = ctx.db
      .select()
      .from(deploymentTraffic)
      .where(and(eq(deploymentId, id), eq(length, minutes), gt(minute, after)))
      .orderBy(asc(minute))
      .limit(PAGE)
      .all();
    yield* rows;
    if (rows.length < PAGE) return;
    after = rows.at(-1)?.minute ?? after;
  }
}

const present = (sum: Sum, from: number, until: number): TrafficPoint => ({
  time: isoTime(from),
  seconds: Math.max(1, (until - from) / SECOND_MS),
  requests: sum.requests,
  failed_requests: sum.errors,
  prompt_tokens: sum.promptTokens,
  cached_tokens: sum.cachedTokens,
  completion_tokens: sum.completionTokens,
  answer_ms: percentilesOf(sum.answer),
  first_token_ms: percentilesOf(sum.firstToken),
  avg_wait_ms: sum.requests === 0 ? null : sum.waitedMs / sum.requests,
  most_open: sum.mostOpen,
  most_waiting: sum.mostWaiting,
});

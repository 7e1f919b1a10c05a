/**
 * Use by day and by key or model: requests, tokens, jobs, device time and cost. Time and cost count for the key that
 * pays, requests and tokens for the key that sent them. Use that goes on counts for today.
 */
import { and, asc, eq, isNotNull, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { usdOf } from "../../../lib/money.ts";
import { isoTime } from "../../../lib/time.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { DAY_MS, HOUR_MS } from "../../../lib/units.ts";
import { deployments } from "../../serving/deployments/table.ts";
import { servingDeployments } from "../billing/usage.ts";
import { openJobs } from "./history.ts";
import type { CostByUse, UseQuery } from "./schema.ts";
import { type UseRow, usageDays } from "./table.ts";

/** Groups beyond it are added up as one without a name. */
const MOST_GROUPS = 50;

type Figures = Pick<
  UseRow,
  "requests" | "promptTokens" | "cachedTokens" | "completionTokens" | "jobs" | "deviceMs" | "costMicros"
>;
type Use = Figures & Pick<UseRow, "day" | "kind" | "keyId" | "model">;

const NONE: Figures = {
  requests: 0,
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens: 0,
  jobs: 0,
  deviceMs: 0,
  costMicros: 0,
};
const NAMES = Object.keys(NONE) as (keyof Figures)[];

const plus = (a: Figures, b: Figures): Figures => {
  const sum = { ...NONE };
  for (const name of NAMES) sum[name] = a[name] + b[name];
  return sum;
};

/** Several commits of one day may lie between two turns: a figure of today may then be one request newer than another. */
export async function byUse(ctx: Ctx, workspaceId: string, query: UseQuery): Promise<CostByUse> {
  const { days: period, by } = query;
  const today = Math.floor(ctx.clock.now() / DAY_MS);
  const groups = new Map<string, Map<number, Figures>>();
  const add = (use: Use) => {
    const name = by === "model" ? use.model : by === "key" ? use.keyId : use.kind;
    const days = groups.get(name) ?? new Map<number, Figures>();
    groups.set(name, days.set(use.day, plus(days.get(use.day) ?? NONE, use)));
  };
  const turn = takingTurns();
  for (let day = today - period + 1; day <= today; day++) {
    await turn();
    for (const use of usesOf(ctx, workspaceId, day, query)) add(use);
  }
  for (const use of openUses(ctx, workspaceId, today)) if (isWanted(use, query)) add(use);
  const all = [...groups].map(([name, days]) => ({ name, days, total: totalOf(days) }));
  const ranked = all.sort(
    (a, b) =>
      b.total.costMicros - a.total.costMicros || b.total.requests - a.total.requests || (a.name < b.name ? -1 : 1),
  );
  const rest = ranked.slice(MOST_GROUPS);
  const prices = ctx.pricing.tokens;
  return {
    object: "cost_by_use",
    period_days: period,
    by,
    first_day: dayText(today - period + 1),
    last_day: dayText(today),
    total: present(
      ranked.reduce((sum, { total }) => plus(sum, total), NONE),
      prices,
    ),
    data: [
      ...ranked.slice(0, MOST_GROUPS).map(({ name, days, total }) => presentGroup(name, { days, total }, prices)),
      ...(rest.length === 0 ? [] : [presentOthers(rest, prices)]),
    ],
  };
}

/** The rows of one day that the filters take, added up by what the answer can tell apart. */
function usesOf({ db }: Ctx, workspaceId: string, day: number, { by, key_id: keyId, model, kind }: UseQuery): Use[] {
  const group = by === "model" ? usageDays.model : by === "key" ? usageDays.keyId : usageDays.kind;
  const sum = (column: keyof Figures) => sql<number>`sum(${usageDays[column]})`;
  return db
    .select({
      day: usageDays.day,
      kind: usageDays.kind,
      keyId: usageDays.keyId,
      model: usageDays.model,
      requests: sum("requests"),
      promptTokens: sum("promptTokens"),
      cachedTokens: sum("cachedTokens"),
      completionTokens: sum("completionTokens"),
      jobs: sum("jobs"),
      deviceMs: sum("deviceMs"),
      costMicros: sum("costMicros"),
    })
    .from(usageDays)
    .where(
      and(
        eq(usageDays.workspaceId, workspaceId),
        eq(usageDays.day, day),
        keyId === undefined ? undefined : eq(usageDays.keyId, keyId),
        model === undefined ? undefined : eq(usageDays.model, model),
        kind === undefined ? undefined : eq(usageDays.kind, kind),
      ),
    )
    .groupBy(group)
    .orderBy(asc(group))
    .all();
}

const isWanted = (use: Use, { key_id: keyId, model, kind }: UseQuery) =>
  (keyId === undefined || use.keyId === keyId) &&
  (model === undefined || use.model === model) &&
  (kind === undefined || use.kind === kind);

/** Jobs that have not ended, and service since the last charge. */
function openUses(ctx: Ctx, workspaceId: string, day: number): Use[] {
  const jobs = openJobs(ctx, workspaceId).map(({ job, use }) => ({
    ...NONE,
    day,
    kind: "training" as const,
    keyId: job.apiKeyId ?? "",
    model: job.baseModel ?? "",
    jobs: 1,
    deviceMs: use.deviceMs,
    costMicros: use.costMicros,
  }));
  const models = servedModels(ctx, workspaceId);
  const service = servingDeployments(ctx, workspaceId).map(({ id, keyId, deviceMs, micros }) => ({
    ...NONE,
    day,
    kind: "serving" as const,
    keyId: keyId ?? "",
    model: models.get(id) ?? "",
    deviceMs,
    costMicros: micros,
  }));
  return [...jobs, ...service];
}

/** Deployment → its model, of those that serve. */
function servedModels({ db }: Ctx, workspaceId: string): Map<string, string> {
  const { id, model, upSince } = deployments;
  const isServing = and(eq(deployments.workspaceId, workspaceId), isNotNull(upSince));
  return new Map(
    db
      .select({ id, model })
      .from(deployments)
      .where(isServing)
      .all()
      .map((row) => [row.id, row.model]),
  );
}

const totalOf = (days: ReadonlyMap<number, Figures>): Figures => [...days.values()].reduce(plus, NONE);
const dayText = (day: number) => isoTime(day * DAY_MS).slice(0, 10);

type Prices = Ctx["pricing"]["tokens"];

/** Tokens from the cache are a part of those of prompts. */
export function tokensUsd({ promptTokens, cachedTokens, completionTokens }: Figures, prices: Prices): number {
  const { prompt_usd: prompt, cached_usd: cached, completion_usd: completion } = prices;
  const micros = (promptTokens - cachedTokens) * prompt + cachedTokens * cached + completionTokens * completion;
  return usdOf(Math.round(micros));
}

const present = (figures: Figures, prices: Prices) => ({
  requests: figures.requests,
  prompt_tokens: figures.promptTokens,
  cached_tokens: figures.cachedTokens,
  completion_tokens: figures.completionTokens,
  jobs: figures.jobs,
  device_hours: Number((figures.deviceMs / HOUR_MS).toFixed(6)),
  cost_usd: usdOf(figures.costMicros),
  tokens_usd: tokensUsd(figures, prices),
});

type Group = { days: ReadonlyMap<number, Figures>; total: Figures };

const presentGroup = (name: string | null, { days, total }: Group, prices: Prices) => ({
  group: name === "" ? null : name,
  is_others: false,
  ...present(total, prices),
  days: [...days]
    .sort(([a], [b]) => a - b)
    .map(([day, figures]) => ({ day: dayText(day), ...present(figures, prices) })),
});

function presentOthers(groups: readonly Group[], prices: Prices) {
  const days = new Map<number, Figures>();
  for (const group of groups)
    for (const [day, figures] of group.days) days.set(day, plus(days.get(day) ?? NONE, figures));
  return { ...presentGroup(null, { days, total: totalOf(days) }, prices), is_others: true };
}

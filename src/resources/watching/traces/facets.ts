/** How many traces each value of a facet has, in whole hours. A value that many traces have is one row for each hour. */
import { and, asc, eq, inArray, lt, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { deployments } from "../../serving/deployments/table.ts";
import { hourOf } from "./counts.ts";
import type { TraceFacets, TraceFacetsQuery } from "./schema.ts";
import { passesSource } from "./search/conditions.ts";
import { FACETS, type Facet, traceCounts } from "./table.ts";

const SLICE = 4_000; // rows read at a time
const MOST = 50; // values of a facet

type Sums = Map<string, number>;

export async function facets(
  ctx: Ctx,
  workspaceId: string,
  { source, since, until }: TraceFacetsQuery,
): Promise<TraceFacets> {
  const from = since === undefined ? 0 : hourOf(Date.parse(since));
  const to = until === undefined ? Number.MAX_SAFE_INTEGER : hourOf(Date.parse(until) - 1) + 1;
  const sums = new Map<Facet, Sums>(FACETS.map((facet) => [facet, new Map()]));
  const sources: Sums = new Map();
  const turn = takingTurns();
  for (const facet of FACETS)
    for (let after = { hour: from, source: "", value: "" }; ; ) {
      await turn();
      const rows = slice(ctx, workspaceId, { facet, after, to });
      for (const row of rows) {
        if (facet === "status") increase(sources, row.source, row.n); // each trace has one status
        if (passesSource(row.source, source)) increase(sums.get(facet), row.value, row.n);
      }
      const last = rows.at(-1);
      if (!last || rows.length < SLICE) break;
      after = last;
    }
  const of = (facet: Facet) => listOf(sums.get(facet) ?? new Map());
  const [total, full] = [sumOf(sums.get("status")), sums.get("capture")?.get("full") ?? 0];
  return {
    object: "trace.facets",
    total,
    not_kept: total - full,
    source: listOf(sources),
    status: of("status"),
    deployment: withNames(ctx, workspaceId, of("deployment")),
    model: of("model"),
    user: of("user"),
    tag: of("tag"),
    score: of("score"),
  };
}

type At = { hour: number; source: string; value: string };

const slice = (ctx: Ctx, workspaceId: string, { facet, after, to }: { facet: Facet; after: At; to: number }) => {
  const { hour, source, value, n } = traceCounts;
  return ctx.db
    .select({ hour, source, value, n })
    .from(traceCounts)
    .where(
      and(
        eq(traceCounts.workspaceId, workspaceId),
        eq(traceCounts.facet, facet),
        sql`(${hour}, ${source}, ${value}) > (${after.hour}, ${after.source}, ${after.value})`,
        lt(hour, to),
      ),
    )
    .orderBy(asc(hour), asc(source), asc(value))
    .limit(SLICE)
    .all();
};

const increase = (sums: Sums | undefined, value: string, n: number) =>
  void sums?.set(value, (sums.get(value) ?? 0) + n);
const sumOf = (sums: Sums = new Map()) => [...sums.values()].reduce((all, n) => all + n, 0);

const listOf = (sums: Sums) =>
  [...sums]
    .map(([value, count]) => ({ value, count }))
    .sort((a, b) => b.count - a.count || (a.value < b.value ? -1 : 1))
    .slice(0, MOST);

function withNames(ctx: Ctx, workspaceId: string, values: ReturnType<typeof listOf>) {
  const { id, name } = deployments;
  const ids = values.map(({ value }) => value);
  const rows = ctx.db
    .select({ id, name })
    .from(deployments)
    .where(and(eq(deployments.workspaceId, workspaceId), inArray(id, ids)))
    .all();
  const names = new Map(rows.map((row) => [row.id, row.name]));
  return values.map((each) => ({ ...each, name: names.get(each.value) ?? null }));
}

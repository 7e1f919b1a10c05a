/**
 * Counts of traces by hour, source and one value of a facet. They change in the commit that inserts or removes the
 * traces, so they are exact. A row without a trace is removed.
 */
import { and, eq, lte, sql } from "drizzle-orm";
import { HOUR_MS } from "../../../lib/units.ts";
import { type Db, prepared, type Tx } from "../../../platform/db/db.ts";
import { type Facet, type ScoreRow, type TraceRow, traceCounts } from "./table.ts";

export const hourOf = (ms: number) => Math.floor(ms / HOUR_MS);

export type Counted = Pick<
  TraceRow,
  "workspaceId" | "source" | "createdAt" | "status" | "capture" | "model" | "deploymentId" | "user" | "tags"
>;
type Count = Omit<typeof traceCounts.$inferSelect, "n">;

const valuesOf = (row: Counted): [Facet, string | null][] => [
  ["status", String(row.status)],
  ["capture", row.capture],
  ["model", row.model],
  ["deployment", row.deploymentId],
  ["user", row.user],
  ...row.tags.map((tag): [Facet, string] => ["tag", tag]),
];

/** `by`: 1 for traces that were inserted, -1 for those that were removed. */
export function countTraces(tx: Tx, rows: readonly Counted[], by: 1 | -1) {
  const counts = rows.flatMap((row) =>
    valuesOf(row).flatMap(([facet, value]) =>
      value === null
        ? []
        : [{ workspaceId: row.workspaceId, facet, hour: hourOf(row.createdAt), source: row.source, value }],
    ),
  );
  add(tx, counts, by);
}

export type CountedScore = Pick<ScoreRow, "workspaceId" | "name" | "traceAt"> & Pick<TraceRow, "source">;

export function countScores(tx: Tx, scores: readonly CountedScore[], by: 1 | -1) {
  const counts = scores.map(({ workspaceId, name, traceAt, source }) => ({
    workspaceId,
    facet: "score" as const,
    hour: hourOf(traceAt),
    source,
    value: name,
  }));
  add(tx, counts, by);
}

const FIELDS = ["workspaceId", "facet", "hour", "source", "value"] as const;

const statements = prepared((db: Db) => {
  const { n, ...keys } = traceCounts;
  const bound = (name: string) => sql`${sql.placeholder(name)}`;
  const values = {
    workspaceId: bound("workspaceId"),
    facet: bound("facet"),
    hour: bound("hour"),
    source: bound("source"),
    value: bound("value"),
    n: bound("n"),
  };
  const target = FIELDS.map((name) => keys[name]);
  const isIt = and(...FIELDS.map((name) => eq(keys[name], sql.placeholder(name))));
  return {
    add: db
      .insert(traceCounts)
      .values(values)
      .onConflictDoUpdate({ target, set: { n: sql`n + excluded.n` } })
      .prepare(),
    removeEmpty: db
      .delete(traceCounts)
      .where(and(isIt, lte(n, 0)))
      .prepare(),
  };
});

/** One statement for each place, however many traces it has. */
function add(tx: Tx, counts: readonly Count[], by: 1 | -1) {
  const groups = Map.groupBy(counts, (count) => JSON.stringify(FIELDS.map((name) => count[name])));
  for (const [first, ...others] of groups.values()) {
    if (!first) continue;
    statements(tx).add.run({ ...first, n: by * (1 + others.length) });
    if (by < 0) statements(tx).removeEmpty.run(first);
  }
}

import type { SQLQueryBindings } from "bun:sqlite";
import { type Db, prepared } from "../../platform/db/db.ts";
import type { Family } from "./prometheus.ts";

/** Whose series: of one workspace, or, where it is null, of all. */
export type View = { workspaceId: string | null };

export const MOST_ROWS = 2_000; // of jobs, of deployments: what is above is not shown, and counted as left out

/** One query for a workspace and for all: `where` is what of it to put behind a condition. */
export function scoped<T>(sql: (where: string) => string, column = "workspace_id") {
  const all = prepared((db) => db.$client.prepare<T, SQLQueryBindings[]>(sql("")));
  const own = prepared((db) => db.$client.prepare<T, SQLQueryBindings[]>(sql(`AND ${column} = ?`)));
  return (db: Db, { workspaceId }: View, ...before: SQLQueryBindings[]): T[] =>
    workspaceId === null ? all(db).all(...before) : own(db).all(...before, workspaceId);
}

/** A family of numbers that go up and down, filled as rows are read. */
export const gauge = (name: string, help: string) => family("gauge", name, help);
/** One whose numbers the database keeps, and only rise. */
export const total = (name: string, help: string) => family("counter", name, help);

export type Filling = Family & { put: (labels: string, value: number | null) => void };

function family(type: "gauge" | "counter", name: string, help: string): Filling {
  const samples: Family["samples"] = [];
  return {
    name,
    help,
    type,
    samples,
    put: (labels, value) => {
      if (value !== null) samples.push({ labels, value });
    },
  };
}

/** Rows that there are too many of to show. */
export function leftOut(name: string, rows: readonly unknown[]): Family {
  const filling = gauge(
    `verk_${name}_left_out`,
    `1: there are more ${name} than ${MOST_ROWS}, and the rest is not shown`,
  );
  if (rows.length > MOST_ROWS) filling.put("", 1);
  return filling;
}

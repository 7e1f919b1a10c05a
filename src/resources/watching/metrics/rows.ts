import type { SQLQueryBindings } from "bun:sqlite";
import { type Db, prepared } from "../../../platform/db/db.ts";
import type { Family } from "./prometheus.ts";

/** The workspace whose series are shown; null: all workspaces. */
export type View = { workspaceId: string | null };

export const MOST_ROWS = 2_000; // of jobs or deployments; further ones are left out

/** One query for one workspace and for all. `where` goes behind an existing condition. */
export function scoped<T>(sql: (where: string) => string, column = "workspace_id") {
  const all = prepared((db) => db.$client.prepare<T, SQLQueryBindings[]>(sql("")));
  const ofWorkspace = prepared((db) => db.$client.prepare<T, SQLQueryBindings[]>(sql(`AND ${column} = ?`)));
  return (db: Db, { workspaceId }: View, ...before: SQLQueryBindings[]): T[] =>
    workspaceId === null ? all(db).all(...before) : ofWorkspace(db).all(...before, workspaceId);
}

/** A family of numbers that go up and down, filled as rows are read. */
export const gauge = (name: string, help: string) => family("gauge", name, help);
/** A family of numbers that the database keeps and that only rise. */
export const total = (name: string, help: string) => family("counter", name, help);

export type FamilyBuilder = Family & { put: (labels: string, value: number | null) => void };

function family(type: "gauge" | "counter", name: string, help: string): FamilyBuilder {
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

/** Is 1 if there are too many rows to show. */
export function leftOut(name: string, rows: readonly unknown[]): Family {
  const builder = gauge(
    `verk_${name}_left_out`,
    `1 if there are more than ${MOST_ROWS} ${name} and the rest is not shown`,
  );
  if (rows.length > MOST_ROWS) builder.put("", 1);
  return builder;
}

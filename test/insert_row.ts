import type { TestApp } from "./harness.ts";

type Column = { name: string; type: string; notnull: 0 | 1; dflt_value: string | null };

/** Writes a row: zero and the empty text where a column must have a value. */
export function insert(app: TestApp, table: string, id: string, createdAt: number, more: object) {
  const db = app.ctx.db.$client;
  const row: Record<string, string | number | null> = {};
  for (const { name, type, notnull, dflt_value } of db.query<Column, []>(`PRAGMA table_info(${table})`).all())
    if (notnull && dflt_value === null) row[name] = type === "TEXT" ? "" : 0;
  const known = { ...row, id, created_at: createdAt };
  const own = db
    .query<Column, []>(`PRAGMA table_info(${table})`)
    .all()
    .some(({ name }) => name === "workspace_id");
  const values = { ...known, ...(own ? { workspace_id: app.workspaceA } : {}), ...more };
  const names = Object.keys(values);
  db.run("PRAGMA foreign_keys = OFF");
  db.prepare(`INSERT INTO ${table} (${names.join()}) VALUES (${names.map(() => "?").join()})`).run(
    ...Object.values(values),
  );
}

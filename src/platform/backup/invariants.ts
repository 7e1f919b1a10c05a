/**
 * Invariants of the files of a backup: the database is sound, and everything that it names is there. The same check
 * runs on a backup that is being made and on a restored directory.
 */
import { Database } from "bun:sqlite";
import { MIGRATIONS } from "../db/migrations/index.ts";
import { encode, LEAF } from "../storage/ref_names.ts";

export const schemaOf = (db: Database) =>
  (db.query("PRAGMA user_version").get() as { user_version: number }).user_version;

export function checkDatabase(db: Database): string[] {
  const schema = schemaOf(db);
  const latest = MIGRATIONS.at(-1)?.version ?? 0;
  if (schema > latest) return [`The database has schema ${schema}, and this verk knows up to ${latest}`];
  const [sound] = db.query("PRAGMA quick_check(1)").all() as { quick_check: string }[];
  const broken = sound?.quick_check === "ok" ? [] : [`The database is damaged: ${sound?.quick_check}`];
  const [orphan] = db.query("PRAGMA foreign_key_check").all() as { table: string; parent: string }[];
  if (orphan) broken.push(`A row of ${orphan.table} names a row of ${orphan.parent} that does not exist`);
  return broken;
}

/** Dataset → its head. Connected datasets are not in it: they have their rows in files of snapshots. */
export function heads(db: Database): Map<string, number> {
  const stored = "SELECT id, head_row AS head FROM datasets WHERE source IS NULL AND head_row > 0";
  return new Map(
    db
      .query<{ id: string; head: number }, []>(stored)
      .all()
      .map(({ id, head }) => [id, head]),
  );
}

/** Undefined: the row file has all rows up to the head. */
export const rowsFault = (id: string, path: string, head: number): string | undefined =>
  head > 0 && lastRow(path) < head ? `The dataset ${id} lacks rows up to its head ${head}` : undefined;

function lastRow(path: string): number {
  const db = new Database(path, { readonly: true });
  try {
    const last = db.query<{ n: number }, []>("SELECT coalesce(max(first_row + rows - 1), 0) AS n FROM blocks").get();
    return last?.n ?? 0;
  } finally {
    db.close();
  }
}

/** These columns name content that their row owns. An upload may still wait for its content. */
export function storageKeys(db: Database): { key: string; required: boolean }[] {
  const owners = db
    .query<{ name: string; column: string }, []>(
      `SELECT m.name, c.name AS column FROM sqlite_schema m
       JOIN pragma_table_info(m.name) c ON c.name IN ('storage_key', 'log_key') WHERE m.type = 'table'`,
    )
    .all();
  return owners.flatMap(({ name, column }) =>
    db
      .query<{ key: string }, []>(`SELECT DISTINCT "${column}" AS key FROM "${name}" WHERE "${column}" IS NOT NULL`)
      .all()
      .map(({ key }) => ({ key, required: name !== "uploads" })),
  );
}

/** The file of a key, below the data directory; see storage/local.ts. */
export const refPathOf = (key: string) => `storage/refs/${key.split("/").map(encode).join("/")}${LEAF}`;
export const objectPathOf = (sha256: string) => `storage/objects/${sha256.slice(0, 2)}/${sha256.slice(2)}`;

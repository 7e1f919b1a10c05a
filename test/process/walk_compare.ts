/** Compares two data directories whose servers are stopped. */
import { Database } from "bun:sqlite";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const FOLDERS = ["models", "jobs", "storage"];
/** Made again by every server. */
const MADE_AGAIN = /^models\/(hub|\.builtin|\.downloads|\.given)\b|^storage\/sums\b/;

/** Records of the running of a server: when a key was used, how far loops are, how many requests came. */
const OF_A_RUN = {
  tables: new Set(["counters", "event_cursors"]),
  settings: `"key" NOT IN ('clock', 'setup_token_hash')`,
  columns: new Set(["last_used_at"]),
};

/** Everything that differs, in words: rows of every table, rows of datasets, files, and the master key. */
export function differences(one: string, other: string): string[] {
  const files = new Set([one, other].flatMap((dir) => FOLDERS.flatMap((folder) => filesBelow(dir, folder))));
  const datasets = new Set([one, other].flatMap((dir) => filesBelow(dir, "datasets")));
  return [
    ...tablesApart(join(one, "verk.db"), join(other, "verk.db")),
    ...[...datasets]
      .filter((path) => path.endsWith(".db"))
      .flatMap((path) => tablesApart(join(one, path), join(other, path))),
    ...[...files, "master.key"].filter((path) => contentOf(one, path) !== contentOf(other, path)),
  ];
}

function filesBelow(root: string, folder: string): string[] {
  const dir = join(root, folder);
  if (!existsSync(dir)) return [];
  return (readdirSync(dir, { recursive: true }) as string[])
    .map((name) => join(folder, name))
    .filter(
      (path) => !MADE_AGAIN.test(path) && statSync(join(root, path), { throwIfNoEntry: false })?.isFile() === true,
    );
}

const contentOf = (root: string, path: string) =>
  existsSync(join(root, path)) ? Bun.hash(readFileSync(join(root, path))) : undefined;

function tablesApart(one: string, other: string): string[] {
  const [a, b] = [rowsOf(one), rowsOf(other)];
  return [...new Set([...a.keys(), ...b.keys()])].flatMap((table) => {
    const [left, right] = [new Set(a.get(table)), new Set(b.get(table))];
    const only = (where: string, rows: Set<string>) =>
      [...rows].map((row) => `${table} ${where}: ${row.slice(0, 300)}`);
    return [
      ...only("only in the first", left.difference(right)),
      ...only("only in the second", right.difference(left)),
    ];
  });
}

function rowsOf(file: string): Map<string, string[]> {
  if (!existsSync(file)) return new Map();
  const db = new Database(file, { readonly: true });
  try {
    const tables = db.query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
    const compared = tables.map(({ name }) => name).filter((name) => !OF_A_RUN.tables.has(name));
    return new Map(compared.map((name) => [name, rowsIn(db, name)]));
  } finally {
    db.close();
  }
}

function rowsIn(db: Database, table: string): string[] {
  const columns = db.query<{ name: string }, []>(`SELECT name FROM pragma_table_info('${table}')`).all();
  const names = columns.map(({ name }) => `"${name}"`).filter((name) => !OF_A_RUN.columns.has(name.slice(1, -1)));
  const where = table === "settings" ? `WHERE ${OF_A_RUN.settings}` : "";
  const rows = db.query(`SELECT ${names.join(", ") || "*"} FROM "${table}" ${where}`).values();
  return rows.map((row) => JSON.stringify(row));
}

/**
 * The parts of a schema, to compare a database with a fresh one. The order of columns does not count: it depends on the
 * order in which the migrations came.
 */
import { Database } from "bun:sqlite";
import { FRESH_TEXTS, MIGRATIONS, type Migration, SCHEMA } from "./migrations/index.ts";

/** Part (`table regions`, `column regions.slurm`, `index regions_list`, `trigger …`) → its definition. */
type Parts = ReadonlyMap<string, string>;
type Definition = { type: string; name: string; sql: string };

/** The names of the migrations that a database has. `applied_at` is null where they were inferred. */
export const APPLIED = "schema_migrations";
export const CREATE_APPLIED = `CREATE TABLE IF NOT EXISTS ${APPLIED} (name TEXT PRIMARY KEY, applied_at INTEGER) STRICT`;

/** Objects without a text are the automatic indexes of constraints. */
const definitionsOf = (sqlite: Database) =>
  sqlite
    .query<Definition, []>(
      "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT GLOB 'sqlite_*' ORDER BY type = 'table' DESC, type, name",
    )
    .all();

const CONSTRAINT = /^(CONSTRAINT|PRIMARY|UNIQUE|CHECK|FOREIGN)\b/i;

function partsOf(definitions: readonly Definition[]): Parts {
  const parts = new Map<string, string>();
  for (const { type, name, sql } of definitions) {
    const text = normalized(sql);
    const body = /^CREATE TABLE [^(]*\((.*)\)([^)]*)$/.exec(text);
    const items = body ? splitItems(body[1] as string) : [];
    const constraints = items.filter((item) => CONSTRAINT.test(item)).sort();
    parts.set(`${type} ${name}`, body ? [...constraints, body[2]?.trim()].join("; ") : text);
    for (const item of items) if (!CONSTRAINT.test(item)) parts.set(`column ${name}.${item.split(" ", 1)[0]}`, item);
  }
  return parts;
}

/** Without comments, quotes around names and superfluous spaces. A text in single quotes stays as it is. */
const normalized = (sql: string) =>
  sql
    .replace(/'(?:[^']|'')*'|--[^\n]*|\/\*[\s\S]*?\*\/|"/g, (part) => (part.startsWith("'") ? part : " "))
    .replace(/\s+/g, " ")
    .replace(/ ?([(),]) ?/g, "$1")
    .trim();

/** Splits at commas outside of parentheses and quotes. */
function splitItems(body: string): string[] {
  const items: string[] = [];
  let [depth, from, isQuoted] = [0, 0, false];
  for (let i = 0; i < body.length; i++) {
    const char = body[i];
    if (char === "'") isQuoted = !isQuoted;
    if (isQuoted) continue;
    if (char === "(") depth++;
    else if (char === ")") depth--;
    else if (char === "," && depth === 0) {
      items.push(body.slice(from, i).trim());
      from = i + 1;
    }
  }
  return [...items, body.slice(from).trim()];
}

/** Reads a database in memory after these migrations; `step` sees it after each. */
function playThrough<T>(
  migrations: readonly Migration[],
  read: (sqlite: Database) => T,
  step?: (sqlite: Database, name: string) => void,
): T {
  const sqlite = new Database(":memory:");
  try {
    sqlite.run(CREATE_APPLIED);
    for (const { name, sql } of migrations) {
      sqlite.run(sql);
      step?.(sqlite, name);
    }
    return read(sqlite);
  } finally {
    sqlite.close();
  }
}

/**
 * Part → the migration that alone makes it. A part that a later migration makes anew or removes proves nothing: its
 * value is undefined.
 */
export function makersOf(migrations: readonly Migration[]): ReadonlyMap<string, string | undefined> {
  const makers = new Map<string, string | undefined>();
  let before: Parts = new Map();
  const note = (fresh: Database, name: string) => {
    const after = partsOf(definitionsOf(fresh));
    for (const part of before.keys()) if (!after.has(part)) makers.set(part, undefined);
    for (const [part, text] of after)
      if (before.get(part) !== text) makers.set(part, makers.has(part) ? undefined : name);
    before = after;
  };
  playThrough(migrations, () => {}, note);
  makers.delete(`table ${APPLIED}`);
  return makers;
}

/**
 * The migrations that a database without a list of them has. Each is one transaction, so it is there if a part is there
 * that it alone makes.
 */
export function inferApplied(sqlite: Database, migrations: readonly Migration[]): Set<string> {
  const parts = partsOf(definitionsOf(sqlite));
  const makers = [...makersOf(migrations)];
  return new Set(makers.flatMap(([part, maker]) => (maker !== undefined && parts.has(part) ? [maker] : [])));
}

/** Names the texts of the schema as they are: a database that began with this version has those of the index. */
export const textsFingerprintOf = (sqlite: Database) =>
  new Bun.SHA256().update(JSON.stringify(definitionsOf(sqlite))).digest("hex");

/** Names the schema, whatever the order of columns, in ten times the time: 3 to 7 ms. */
export const fingerprintOf = (sqlite: Database) =>
  new Bun.SHA256().update(JSON.stringify([...partsOf(definitionsOf(sqlite))].sort())).digest("hex");

export const freshFingerprint = (migrations: readonly Migration[]) => playThrough(migrations, fingerprintOf);

/** `fresh`: the statements of a fresh database. */
export const freshTextsFingerprint = (fresh: string) =>
  playThrough([{ version: 0, name: "fresh", sql: fresh }], textsFingerprintOf);

/**
 * The statements that make a fresh database at once: what all migrations together leave, with the rows that they insert.
 * Tables that belong to a virtual table are made by it.
 */
export const freshStatements = (migrations: readonly Migration[]) =>
  playThrough(migrations, (sqlite) => {
    const kinds = new Map(
      sqlite
        .query<{ name: string; type: string }, []>("SELECT name, type FROM pragma_table_list WHERE schema = 'main'")
        .all()
        .map(({ name, type }) => [name, type]),
    );
    const definitions = definitionsOf(sqlite).filter(({ name }) => name !== APPLIED && kinds.get(name) !== "shadow");
    const rows = definitions.flatMap(({ type, name }) => {
      if (type !== "table" || kinds.get(name) !== "table") return [];
      const columns = sqlite.query<{ name: string }, []>(`SELECT name FROM pragma_table_info('${name}')`).all();
      const values = columns.map((column) => `quote("${column.name}")`).join(" || ', ' || ");
      const texts = sqlite.query<{ text: string }, []>(`SELECT ${values} AS text FROM "${name}"`).all();
      return texts.map(({ text }) => `INSERT INTO "${name}" VALUES (${text})`);
    });
    const isTrigger = ({ type }: Definition) => type === "trigger"; // after the rows, which they would count again
    const texts = (some: readonly Definition[]) => some.map(({ sql }) => sql);
    return [...texts(definitions.filter((each) => !isTrigger(each))), ...rows, ...texts(definitions.filter(isTrigger))]
      .map((sql) => `${sql};\n`)
      .join("");
  });

type Comparison = {
  missing: string[];
  different: string[];
  unknown: string[];
  /** Statements that add columns and make indexes and triggers anew. None of them loses data. */
  repairs: string[];
};

function compare(sqlite: Database): Comparison {
  const is = partsOf(definitionsOf(sqlite));
  const fresh = playThrough(MIGRATIONS, definitionsOf);
  const should = partsOf(fresh);
  const isAmiss = (part: string) => is.get(part) !== should.get(part);
  const tableOf = (part: string) => /^column (.+)\./.exec(part)?.[1];
  const isWhole = (part: string) => tableOf(part) === undefined || is.has(`table ${tableOf(part)}`);
  const missing = [...should.keys()].filter((part) => !is.has(part) && isWhole(part));
  const columns = missing
    .filter((part) => tableOf(part) !== undefined)
    .map((part) => `ALTER TABLE "${tableOf(part)}" ADD COLUMN ${should.get(part)}`);
  const derived = fresh
    .filter(({ type, name }) => (type === "index" || type === "trigger") && isAmiss(`${type} ${name}`))
    .map(({ type, name, sql }) => `DROP ${type} IF EXISTS "${name}"; ${sql};`);
  return {
    missing,
    different: [...should.keys()].filter((part) => is.has(part) && isAmiss(part)),
    unknown: [...is.keys()].filter((part) => !should.has(part)),
    repairs: [...columns, ...derived],
  };
}

/** Adds missing columns, and makes indexes and triggers anew: an early text of a migration left them otherwise. */
export function repairSchema(sqlite: Database) {
  const { repairs } = compare(sqlite);
  sqlite.transaction(() => repairs.forEach((sql) => void sqlite.run(sql))).immediate();
}

export type SchemaFault = { detail: string; fix: string; isFatal: boolean };

/** Undefined: the schema is that of a fresh database. Parts that this program does not know do no harm. */
export function schemaFault(sqlite: Database): SchemaFault | undefined {
  if (textsFingerprintOf(sqlite) === FRESH_TEXTS || fingerprintOf(sqlite) === SCHEMA) return undefined;
  const { missing, different, unknown } = compare(sqlite);
  const say = (parts: readonly string[], verb: string) => {
    if (parts.length === 0) return [];
    const more = parts.length > SHOWN ? ` and ${parts.length - SHOWN} more` : "";
    return [`${verb} ${parts.slice(0, SHOWN).join(", ")}${more}`];
  };
  const differences = [
    ...say(missing, "it lacks"),
    ...say(different, "it has another"),
    ...say(unknown, "it also has"),
  ];
  if (differences.length === 0) return undefined;
  return {
    detail: `the schema is not the one of this version: ${differences.join("; ")}`,
    fix:
      missing.length + different.length > 0
        ? "start the version of verk that wrote it, or restore a backup (`verk backup restore`, or a copy in the folder backups)"
        : "remove what you added by hand; if you added nothing, another version of verk wrote it and nothing is wrong",
    isFatal: missing.length + different.length > 0,
  };
}

const SHOWN = 3;

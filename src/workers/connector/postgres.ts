/** Reads the rows of one query through a server-side cursor. docs/connectors.md lists the types. */
import { hiding } from "./sql/fault.ts";
import { distinct, oneLine, tooLong } from "./sql/lines.ts";
import { type Endpoint, type Field, identifier, PostgresSession } from "./sql/postgres/session.ts";
import { readServer } from "./sql/server.ts";
import { oneStatement } from "./sql/statement.ts";
import type { Chunk, Open } from "./types.ts";

const KIND = { schemes: ["postgres", "postgresql"], port: 5432, fields: ["schema"] };
const FIRST_ROWS = 100;
const MAX_ROWS = 1000;
/** Target size of one fetch; all of it is in memory at once. */
const FETCH_CHARACTERS = 4_000_000;

export const open: Open = (opening) => {
  const { source, credentials, dialer, limits } = opening;
  const endpoint: Endpoint = { server: readServer(opening, KIND), dialer, limits, hide: hiding(credentials) };
  const query = oneStatement(source.db_query ?? "", "postgres");
  const columns = async (signal: AbortSignal) => {
    await using session = await PostgresSession.open(endpoint, signal);
    return (await describe(session, query)).map(({ name }) => name);
  };
  return {
    test: async (signal) => void (await columns(signal)),
    columns,
    count: async (signal) => {
      await using session = await PostgresSession.open(endpoint, signal);
      await describe(session, query);
      const { rows } = await session.run(`SELECT count(*)::text FROM (${query}\n) q WHERE $1::int = 1`, [1]);
      return Number(rows[0]?.[0] ?? 0);
    },
    rows: ({ signal }) => read(endpoint, query, signal),
  };
};

/** Does not run the query, but the server checks it completely: tables, columns, rights. */
async function describe(session: PostgresSession, query: string): Promise<Field[]> {
  const { fields } = await session.run(`SELECT * FROM (${query}\n) q LIMIT $1`, [0]);
  distinct(fields.map(({ name }) => name));
  return fields;
}

async function* read(endpoint: Endpoint, query: string, signal: AbortSignal): AsyncIterable<Chunk> {
  await using session = await PostgresSession.open(endpoint, signal);
  const fields = await describe(session, query);
  const { rowBytes } = endpoint.limits;
  await session.run(`DECLARE verk NO SCROLL CURSOR FOR ${linesQuery(query, fields)}`, [rowBytes]);
  let before = 0;
  for (let size = FIRST_ROWS; ; ) {
    const { rows } = await session.run(`FETCH FORWARD ${size} FROM verk`);
    if (rows.length === 0) return;
    let characters = 0;
    const lines = rows.map(([text], i) => {
      if (!text?.startsWith("{")) throw tooLong(before + i + 1, rowBytes, Number(text));
      characters += text.length;
      return oneLine(text);
    });
    yield { lines, cursor: null };
    before += rows.length;
    if (rows.length < size) return;
    size = next(size, characters / rows.length);
  }
}

/** The size grows step by step and shrinks at once. */
function next(size: number, charactersPerRow: number): number {
  const fitting = Math.floor(FETCH_CHARACTERS / Math.max(1, charactersPerRow));
  return Math.max(1, Math.min(fitting, size * 4, MAX_ROWS));
}

/** Type numbers are fixed in the server's catalogue. A domain has the number of its base type. */
const BYTEA = 17;
const BYTEA_LIST = 1001;
const FLOATS = [700, 701];
const NUMERIC = 1700;
const NUMBER_LISTS = [1231, 1021, 1022];
const TIMESTAMPTZ = 1184;
const TIMESTAMPTZ_LIST = 1185;

const NOT_JSON = "('NaN', 'Infinity', '-Infinity')";
const base64 = (value: string) => `translate(encode(${value}, 'base64'), chr(10), '')`;

/** Rewrites a column so that the server's own to_json produces the documented JSON. */
function shown({ name, type }: Field): string {
  const value = `q.${identifier(name)}`;
  if (type === BYTEA) return base64(value);
  if (type === BYTEA_LIST)
    return `CASE WHEN ${value} IS NOT NULL THEN ARRAY(SELECT ${base64("item")} FROM unnest(${value}) item) END`;
  if (FLOATS.includes(type)) return `CASE WHEN ${value} NOT IN ${NOT_JSON} THEN ${value} END`;
  if (type === NUMERIC) return `CASE WHEN ${value}::text NOT IN ${NOT_JSON} THEN ${value} END`;
  if (NUMBER_LISTS.includes(type)) return `regexp_replace(to_json(${value})::text, '"[-A-Za-z]+"', 'null', 'g')::json`;
  if (type === TIMESTAMPTZ) return `replace(to_json(${value}) #>> '{}', '+00:00', 'Z')`;
  if (type === TIMESTAMPTZ_LIST) return `replace(to_json(${value})::text, '+00:00', 'Z')::json`;
  return value;
}

/** `$1` is the maximum row length in bytes. For a longer row only its length is sent, which no row looks like. */
function linesQuery(query: string, fields: readonly Field[]): string {
  const columns = fields.map((field) => `${shown(field)} AS ${identifier(field.name)}`).join(", ");
  // OFFSET 0 keeps the planner from writing the row twice.
  return `SELECT CASE WHEN octet_length(t) > $1 THEN octet_length(t)::text ELSE t END
    FROM (SELECT row_to_json(verk.*)::text AS t FROM (SELECT ${columns} FROM (${query}\n) q) verk OFFSET 0) lines`;
}

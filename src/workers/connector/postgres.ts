/** Reads the rows of one query through a server-side cursor. docs/connectors.md lists the types. */
import { hiding } from "./sql/fault.ts";
import { distinct, oneLine, tooLong } from "./sql/lines.ts";
import { linesQuery } from "./sql/postgres/query.ts";
import { type Endpoint, type Field, PostgresSession } from "./sql/postgres/session.ts";
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

/** Reads the rows of one MySQL or MariaDB query, as the server sends them. docs/connectors.md lists the types. */
import { PIECE_CHARACTERS, PIECE_ROWS } from "./formats/file.ts";
import { hiding } from "./sql/fault.ts";
import { checked, distinct, rowWriter } from "./sql/lines.ts";
import { type Endpoint, MysqlSession, type Row } from "./sql/mysql/session.ts";
import { type Column, toJson } from "./sql/mysql/values.ts";
import { readServer } from "./sql/server.ts";
import { oneStatement } from "./sql/statement.ts";
import type { Chunk, Open } from "./types.ts";

const KIND = { schemes: ["mysql", "mariadb"], port: 3306, fields: [] };

export const open: Open = (opening) => {
  const { source, credentials, dialer, limits } = opening;
  const endpoint: Endpoint = { server: readServer(opening, KIND), dialer, limits, hide: hiding(credentials) };
  const query = oneStatement(source.db_query ?? "", "mysql");
  const columns = async (signal: AbortSignal) => {
    await using session = await MysqlSession.open(endpoint, signal);
    return await describe(session, query);
  };
  return {
    test: async (signal) => void (await columns(signal)),
    columns,
    count: async (signal) => {
      await using session = await MysqlSession.open(endpoint, signal);
      await describe(session, query);
      const [row] = await session.run(`SELECT count(*) FROM (${query}\n) verk_rows`);
      return Number(row?.[0]?.toString() ?? 0);
    },
    rows: ({ signal }) => read(endpoint, query, signal),
  };
};

/**
 * Prepares the query as a subquery, without running it. The server then rejects everything but a plain query, such as
 * INTO OUTFILE, which writes a file and passes in a read-only transaction.
 */
async function describe(session: MysqlSession, query: string): Promise<string[]> {
  const columns = await session.describe(`SELECT * FROM (${query}\n) verk_rows`);
  return distinct(columns.map(({ name }) => name));
}

async function* read(endpoint: Endpoint, query: string, signal: AbortSignal): AsyncIterable<Chunk> {
  await using session = await MysqlSession.open(endpoint, signal);
  await describe(session, query);
  let write = (_row: Row): string => "{}";
  const onColumns = (columns: Column[]) => {
    write = lineWriter(columns);
  };
  let lines: string[] = [];
  let characters = 0;
  let row = 0;
  // Not as a subquery: there the servers ignore ORDER BY.
  for await (const values of session.stream(query, onColumns)) {
    const line = checked(write(values), ++row, endpoint.limits.rowBytes);
    lines.push(line);
    characters += line.length;
    if (lines.length < PIECE_ROWS && characters < PIECE_CHARACTERS) continue;
    yield { lines, cursor: null };
    lines = [];
    characters = 0;
  }
  if (lines.length > 0) yield { lines, cursor: null };
}

function lineWriter(columns: readonly Column[]): (row: Row) => string {
  const write = rowWriter(columns.map(({ name }) => name));
  const casts = columns.map(toJson);
  return (row) =>
    write(
      casts.map((cast, i) => {
        const bytes = row[i];
        return bytes === null || bytes === undefined ? "null" : cast(bytes);
      }),
    );
}

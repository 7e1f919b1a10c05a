/** Rows of one query of MySQL or MariaDB, as the server sends them. docs/connectors.md says which type becomes what. */
import { PIECE_CHARACTERS, PIECE_ROWS } from "./formats/file.ts";
import { hiding } from "./sql/fault.ts";
import { checked, distinct, rowWriter } from "./sql/lines.ts";
import { MysqlSession, type Place, type Row } from "./sql/mysql/session.ts";
import { type Column, toJson } from "./sql/mysql/values.ts";
import { readServer } from "./sql/server.ts";
import { oneStatement } from "./sql/statement.ts";
import type { Chunk, Open } from "./types.ts";

const KIND = { schemes: ["mysql", "mariadb"], port: 3306, fields: [] };

export const open: Open = (opening) => {
  const { source, credentials, dialer, limits } = opening;
  const place: Place = { server: readServer(opening, KIND), dialer, limits, hide: hiding(credentials) };
  const query = oneStatement(source.db_query ?? "", "mysql");
  const columns = async (signal: AbortSignal) => {
    await using session = await MysqlSession.open(place, signal);
    return await describe(session, query);
  };
  return {
    test: async (signal) => void (await columns(signal)),
    columns,
    count: async (signal) => {
      await using session = await MysqlSession.open(place, signal);
      await describe(session, query);
      const [row] = await session.run(`SELECT count(*) FROM (${query}\n) verk_rows`);
      return Number(row?.[0]?.toString() ?? 0);
    },
    rows: ({ signal }) => read(place, query, signal),
  };
};

/**
 * As a table within another query, and prepared but not run: the server refuses whatever is no plain query, such as
 * one that writes a file (INTO OUTFILE), which a read-only transaction would let pass.
 */
async function describe(session: MysqlSession, query: string): Promise<string[]> {
  const columns = await session.describe(`SELECT * FROM (${query}\n) verk_rows`);
  return distinct(columns.map(({ name }) => name));
}

async function* read(place: Place, query: string, signal: AbortSignal): AsyncIterable<Chunk> {
  await using session = await MysqlSession.open(place, signal);
  await describe(session, query);
  let write = (_row: Row): string => "{}";
  const onColumns = (columns: Column[]) => {
    write = lineWriter(columns);
  };
  let lines: string[] = [];
  let characters = 0;
  let row = 0;
  // Not wrapped: within another query the servers forget ORDER BY.
  for await (const values of session.stream(query, onColumns)) {
    const line = checked(write(values), ++row, place.limits.rowBytes);
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

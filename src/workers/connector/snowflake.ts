/**
 * Reads the rows of one Snowflake query, partition by partition, over its SQL REST API. docs/connectors.md lists the
 * types.
 */
import { z } from "zod";
import { PIECE_ROWS } from "./formats/file.ts";
import { type Hide, hiding, needed, onlyKnown, textIn } from "./sql/fault.ts";
import { checked, distinct } from "./sql/lines.ts";
import { snowflakeFault } from "./sql/snowflake/fault.ts";
import { keyPairToken } from "./sql/snowflake/token.ts";
import { RowType, rowCast } from "./sql/snowflake/values.ts";
import { oneStatement } from "./sql/statement.ts";
import { ask, askMembers, cancel, endpointIn, pause, type Warehouse } from "./sql/warehouse.ts";
import { type Chunk, type Open, type Opening, SourceError } from "./types.ts";

const CONNECTION = "/db_connection";
const CREDENTIALS = "/credentials";
const CONTEXT = ["warehouse", "database", "schema", "role"];
const STATEMENTS = "/api/v2/statements";
const STOP_MS = 900;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5000;

type Session = { warehouse: Warehouse; query: string; context: Record<string, string>; hide: Hide };

export const open: Open = (opening) => {
  const session = sessionFor(opening);
  const { query } = session;
  const columns = async (signal: AbortSignal) => (await describe(session, signal)).map(({ name }) => name);
  return {
    test: async (signal) => void (await describe(session, signal)),
    columns,
    count: async (signal) => {
      await describe(session, signal);
      const counting = `SELECT COUNT(*) AS N FROM (${query}\n)`;
      const [first] = await Array.fromAsync(read(session, counting, signal));
      return Number(JSON.parse(first?.lines[0] ?? '{"N":0}').N);
    },
    rows: ({ signal }) => readDescribed(session, signal),
  };
};

function sessionFor({ source, credentials, dialer, limits }: Opening): Session {
  const { db_connection: connection } = source;
  if (typeof connection !== "object" || connection === null)
    throw new SourceError(
      "invalid_source",
      'db_connection must be an object such as {"account": "org-account", "user": "…", "warehouse": "…"}',
      CONNECTION,
    );
  onlyKnown(connection, ["account", "user", "endpoint", ...CONTEXT], CONNECTION);
  onlyKnown(credentials, ["user", "username", "private_key", "private_key_passphrase", "token"], CREDENTIALS);
  const account = needed(connection, "account", CONNECTION);
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(account))
    throw new SourceError("invalid_source", "account must look like organisation-account", `${CONNECTION}/account`);
  const host = `https://${account.toLowerCase().replaceAll("_", "-")}.snowflakecomputing.com`;
  const context = CONTEXT.flatMap((name) => {
    const value = textIn(connection, name, CONNECTION);
    return value === undefined ? [] : [[name, value]];
  });
  const hide = hiding(credentials);
  return {
    query: oneStatement(source.db_query ?? "", "snowflake"),
    context: Object.fromEntries(context),
    hide,
    warehouse: {
      name: "Snowflake",
      endpoint: endpointIn(textIn(connection, "endpoint", CONNECTION), host),
      authorize: authorizing(connection, credentials, account),
      refusal: (status, body) => snowflakeFault(status, body, hide),
      dialer,
      limits,
    },
  };
}

function authorizing(connection: Record<string, unknown>, credentials: Opening["credentials"], account: string) {
  const inCredentials = (name: string) => textIn(credentials, name, CREDENTIALS);
  const token = inCredentials("token");
  // Snowflake detects the kind of token
  if (token !== undefined) return async () => ({ authorization: `Bearer ${token}` });
  const privateKey = inCredentials("private_key");
  if (privateKey === undefined)
    throw new SourceError("invalid_source", "credentials must contain private_key (PEM) or token", CREDENTIALS);
  const user = inCredentials("user") ?? inCredentials("username") ?? needed(connection, "user", CONNECTION);
  const tokens = keyPairToken({ account, user, privateKey, passphrase: inCredentials("private_key_passphrase") });
  return async () => ({
    authorization: `Bearer ${tokens()}`,
    "x-snowflake-authorization-token-type": "KEYPAIR_JWT",
  });
}

/**
 * Snowflake has no read-only mode. As a subquery it accepts only a query: a procedure call is rejected before it runs.
 * The role must limit the functions inside a query.
 */
async function describe(session: Session, signal: AbortSignal): Promise<RowType[]> {
  const { first } = await run(session, `SELECT * FROM (${session.query}\n) LIMIT 0`, signal);
  distinct(first.rowType.map(({ name }) => name));
  return first.rowType;
}

async function* readDescribed(session: Session, signal: AbortSignal): AsyncIterable<Chunk> {
  await describe(session, signal);
  yield* read(session, session.query, signal);
}

async function* read(session: Session, statement: string, signal: AbortSignal): AsyncGenerator<Chunk> {
  const { handle, first } = await run(session, statement, signal);
  const { limits } = session.warehouse;
  const write = rowCast(first.rowType);
  let rows = 0;
  for (let partition = 0; partition < first.partitions; partition++) {
    const path = `${at(handle)}?partition=${partition}`;
    for await (const members of askMembers(session.warehouse, { path, signal }, "data"))
      yield* pieces(members.map((text) => checked(write(text), ++rows, limits.rowBytes)));
  }
  if (rows !== first.numRows)
    throw new SourceError("broken", `Snowflake sent ${rows} of ${first.numRows} rows. Try again`);
}

function* pieces(lines: string[]): Generator<Chunk> {
  for (let from = 0; from < lines.length; from += PIECE_ROWS)
    yield { lines: lines.slice(from, from + PIECE_ROWS), cursor: null };
}

const at = (handle: string) => `${STATEMENTS}/${encodeURIComponent(handle)}`;

const Begun = z.object({ statementHandle: z.string() });
const Finished = z.object({
  resultSetMetaData: z.object({
    numRows: z.number(),
    rowType: z.array(RowType),
    partitionInfo: z.array(z.unknown()).default([]),
  }),
});
type Result = { numRows: number; rowType: RowType[]; partitions: number };

/** Returns the handle of a completed statement and the types of its rows. If this fails, no statement keeps running. */
async function run(
  session: Session,
  statement: string,
  signal: AbortSignal,
): Promise<{ handle: string; first: Result }> {
  const handle = await begin(session, statement, signal);
  const { warehouse } = session;
  const deadline = Date.now() + warehouse.limits.statementMs;
  let isRunning = true;
  try {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.5, LONGEST_PAUSE_MS)) {
      const first = await poll(warehouse, handle, signal);
      if (first) {
        isRunning = false;
        return { handle, first };
      }
      if (Date.now() > deadline) throw tooSlow(warehouse.limits.statementMs);
      await pause(pauseMs, signal);
    }
  } finally {
    if (isRunning) await cancel(warehouse, `${at(handle)}/cancel`);
  }
}

/** Returns undefined while the statement runs. Rows of the first partition are requested again when needed. */
async function poll(warehouse: Warehouse, handle: string, signal: AbortSignal): Promise<Result | undefined> {
  const answers = askMembers(warehouse, { path: at(handle), signal }, "data");
  let next = await answers.next();
  while (!next.done) next = await answers.next();
  const { status, body } = next.value;
  if (status === 202) return undefined;
  const finished = Finished.safeParse(body);
  if (!finished.success) throw new SourceError("broken", "Snowflake's answer is not a query result");
  const { numRows, rowType, partitionInfo } = finished.data.resultSetMetaData;
  return { numRows, rowType, partitions: Math.max(1, partitionInfo.length) };
}

/** The statement has no handle until it is answered, so an abort meanwhile waits for the handle and then cancels. */
async function begin({ warehouse, context }: Session, statement: string, signal: AbortSignal): Promise<string> {
  const body = {
    statement,
    timeout: Math.ceil(warehouse.limits.statementMs / 1000),
    ...context,
    parameters: { BINARY_OUTPUT_FORMAT: "HEX", MULTI_STATEMENT_COUNT: "1", TIMEZONE: "UTC" },
  };
  const late = new AbortController();
  const stop = () => void setTimeout(() => late.abort(signal.reason), STOP_MS);
  signal.addEventListener("abort", stop, { once: true });
  try {
    signal.throwIfAborted();
    const path = `${STATEMENTS}?async=true&requestId=${crypto.randomUUID()}`;
    const begun = Begun.safeParse((await ask(warehouse, { path, body, signal: late.signal })).body);
    if (!begun.success) throw new SourceError("broken", "Snowflake did not name the statement that it started");
    if (signal.aborted) await cancel(warehouse, `${at(begun.data.statementHandle)}/cancel`);
    signal.throwIfAborted();
    return begun.data.statementHandle;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

const tooSlow = (ms: number) =>
  new SourceError(
    "broken",
    `The statement took longer than ${ms} ms (connectors.statement_timeout_ms) and was stopped`,
    "/db_query",
  );

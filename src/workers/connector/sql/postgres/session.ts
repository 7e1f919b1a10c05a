/**
 * One connection to Postgres, in one read-only transaction that ends with it. User-written text is sent with a
 * parameter: only then does the server reject a second statement in it.
 */
import { SQL } from "bun";
import type { Dialer } from "../../dialer.ts";
import type { Limits } from "../../types.ts";
import { SourceError } from "../../types.ts";
import type { Hide } from "../fault.ts";
import { modeFor, type Server, type SslMode, trusted } from "../server.ts";
import { postgresFault } from "./fault.ts";

export type Endpoint = { server: Server; dialer: Dialer; limits: Limits; hide: Hide };
export type Field = { name: string; type: number };
export type Result = { rows: (string | null)[][]; fields: Field[] };

/** A cancelled statement has this long to end before the connection is closed. */
const GRACE_MS = 500;
const LOCK_MS = 30_000;
/** The consumer may pause between two pieces, but a dead one must not hold a snapshot for ever. */
const IDLE_MS = 600_000;

export class PostgresSession implements AsyncDisposable {
  private constructor(
    private readonly endpoint: Endpoint,
    private readonly sql: SQL,
    private readonly signal: AbortSignal,
    private connection: Awaited<ReturnType<SQL["reserve"]>> | undefined = undefined,
  ) {}

  static async open(endpoint: Endpoint, signal: AbortSignal): Promise<PostgresSession> {
    signal.throwIfAborted();
    const { server, dialer, limits } = endpoint;
    const address = await dialer.resolve(server.host, signal);
    const sql = new SQL({
      adapter: "postgres",
      hostname: address,
      port: server.port,
      username: server.user,
      password: server.password,
      database: server.database ?? server.user,
      path: "",
      tls: tlsFor(server, modeFor(server, address), dialer.ca),
      max: 1,
      prepare: false, // a connection pooler may not support named statements
      connectionTimeout: Math.ceil(limits.connectMs / 1000),
    });
    const session = new PostgresSession(endpoint, sql, signal);
    try {
      session.connection = await session.settled(sql.reserve(), false);
      await session.run("BEGIN READ ONLY");
      await session.run(settings(endpoint));
      return session;
    } catch (error) {
      await session[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** With `values`, only one statement is allowed. */
  async run(text: string, values?: readonly (string | number)[]): Promise<Result> {
    this.signal.throwIfAborted();
    const { connection } = this;
    if (!connection) throw new Error("the session is closed");
    const query = connection.unsafe<(string | null)[][]>(text, values && [...values]).values();
    const cancel = () => void query.cancel(); // a listener that returns a promise would cause an unhandled rejection
    this.signal.addEventListener("abort", cancel, { once: true });
    try {
      const rows = await this.settled(query, true);
      const fields = (rows.columns ?? []).map(({ name, type }) => ({ name, type: Number(type) }));
      return { rows, fields };
    } finally {
      this.signal.removeEventListener("abort", cancel);
    }
  }

  /** Returns the outcome. After an abort that the server does not report, throws the signal's reason. */
  private async settled<T>(work: PromiseLike<T>, connected: boolean): Promise<T> {
    const { limits } = this.endpoint;
    // the server stops the statement earlier, unless the network is down
    const late = limits.statementMs + limits.connectMs;
    let timer: Timer | undefined;
    let onAbort = () => {};
    const ended = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new SourceError("broken", `No answer within ${late} ms`)), late);
      onAbort = () => {
        clearTimeout(timer);
        timer = setTimeout(() => reject(this.signal.reason), GRACE_MS);
      };
      this.signal.addEventListener("abort", onAbort, { once: true });
    });
    try {
      return await Promise.race([work, ended]);
    } catch (error) {
      this.signal.throwIfAborted();
      throw error instanceof SourceError ? error : postgresFault(error, this.endpoint, connected);
    } finally {
      clearTimeout(timer);
      this.signal.removeEventListener("abort", onAbort);
    }
  }

  /** The server rolls the transaction back when the connection ends. */
  async [Symbol.asyncDispose]() {
    this.connection = undefined;
    await this.sql.close({ timeout: 0 }).catch(() => {}); // it is closed already
  }
}

function tlsFor(server: Server, mode: SslMode, ca: string | undefined) {
  if (mode === "disable" || mode === "prefer") return mode;
  const serverName = server.host; // the certificate is for the name, not for the address
  if (mode === "require") return { serverName, rejectUnauthorized: false };
  const checks = { serverName, rejectUnauthorized: true, ca: trusted(server, ca) };
  return mode === "verify-full" ? checks : { ...checks, checkServerIdentity: () => undefined };
}

/** Settings for this transaction only, limited to those that this server version knows. */
function settings({ server, limits }: Endpoint): string {
  const wanted: Record<string, string> = {
    statement_timeout: String(limits.statementMs),
    lock_timeout: String(Math.min(LOCK_MS, limits.statementMs)),
    idle_in_transaction_session_timeout: String(IDLE_MS),
    client_connection_check_interval: "5000", // the server notices a dead client while a statement runs
    cursor_tuple_fraction: "1", // optimise for all rows, not for the first
    TimeZone: "UTC",
    DateStyle: "ISO, YMD",
    IntervalStyle: "iso_8601",
    extra_float_digits: "3",
    bytea_output: "hex",
    ...(server.schema === undefined ? {} : { search_path: identifier(server.schema) }),
  };
  const rows = Object.entries(wanted).map(([name, value]) => `(${literal(name)}, ${literal(value)})`);
  return `SELECT set_config(s.name, w.value, true) FROM (VALUES ${rows.join(", ")}) AS w (name, value) JOIN pg_settings s USING (name)`;
}

export const identifier = (name: string) => `"${name.replaceAll('"', '""')}"`;
const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;

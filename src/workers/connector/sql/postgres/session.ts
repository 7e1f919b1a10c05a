/**
 * One connection to Postgres, in one read-only transaction that ends with it. Text that a user wrote goes with a
 * parameter, because only then does the server itself refuse a second statement in it.
 */
import { SQL } from "bun";
import type { Dialer } from "../../dialer.ts";
import type { Limits } from "../../types.ts";
import { SourceError } from "../../types.ts";
import type { Hide } from "../fault.ts";
import { modeFor, type Server, type SslMode, trusted } from "../server.ts";
import { postgresFault } from "./fault.ts";

export type Place = { server: Server; dialer: Dialer; limits: Limits; hide: Hide };
export type Field = { name: string; type: number };
export type Result = { rows: (string | null)[][]; fields: Field[] };

/** How long a cancelled statement may take to say so before the connection is cut. */
const GRACE_MS = 500;
const LOCK_MS = 30_000;
/** The consumer may rest between two pieces, but a dead one must not hold a snapshot for ever. */
const IDLE_MS = 600_000;

export class PostgresSession implements AsyncDisposable {
  private constructor(
    private readonly place: Place,
    private readonly sql: SQL,
    private readonly signal: AbortSignal,
    private connection: Awaited<ReturnType<SQL["reserve"]>> | undefined = undefined,
  ) {}

  static async open(place: Place, signal: AbortSignal): Promise<PostgresSession> {
    signal.throwIfAborted();
    const { server, dialer, limits } = place;
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
      prepare: false, // a pooler between us and the server may know no named statements
      connectionTimeout: Math.ceil(limits.connectMs / 1000),
    });
    const session = new PostgresSession(place, sql, signal);
    try {
      session.connection = await session.settled(sql.reserve(), false);
      await session.run("BEGIN READ ONLY");
      await session.run(settings(place));
      return session;
    } catch (error) {
      await session[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** With `values`, one statement only. */
  async run(text: string, values?: readonly (string | number)[]): Promise<Result> {
    this.signal.throwIfAborted();
    const { connection } = this;
    if (!connection) throw new Error("the session is closed");
    const query = connection.unsafe<(string | null)[][]>(text, values && [...values]).values();
    const cancel = () => void query.cancel(); // a listener's promise would be an unhandled rejection
    this.signal.addEventListener("abort", cancel, { once: true });
    try {
      const rows = await this.settled(query, true);
      const fields = (rows.columns ?? []).map(({ name, type }) => ({ name, type: Number(type) }));
      return { rows, fields };
    } finally {
      this.signal.removeEventListener("abort", cancel);
    }
  }

  /** The outcome; or, when the signal came and the server does not say so itself, the signal's reason. */
  private async settled<T>(work: PromiseLike<T>, connected: boolean): Promise<T> {
    const { limits } = this.place;
    const late = limits.statementMs + limits.connectMs; // the server ends it before, unless the network is gone
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
      throw error instanceof SourceError ? error : postgresFault(error, this.place, connected);
    } finally {
      clearTimeout(timer);
      this.signal.removeEventListener("abort", onAbort);
    }
  }

  /** The server undoes the transaction when the connection ends. */
  async [Symbol.asyncDispose]() {
    this.connection = undefined;
    await this.sql.close({ timeout: 0 }).catch(() => {}); // it is gone already
  }
}

function tlsFor(server: Server, mode: SslMode, ca: string | undefined) {
  if (mode === "disable" || mode === "prefer") return mode;
  const serverName = server.host; // the certificate is for the name, whatever address is dialled
  if (mode === "require") return { serverName, rejectUnauthorized: false };
  const checks = { serverName, rejectUnauthorized: true, ca: trusted(server, ca) };
  return mode === "verify-full" ? checks : { ...checks, checkServerIdentity: () => undefined };
}

/** For this transaction alone, and only what this version of the server knows. */
function settings({ server, limits }: Place): string {
  const wanted: Record<string, string> = {
    statement_timeout: String(limits.statementMs),
    lock_timeout: String(Math.min(LOCK_MS, limits.statementMs)),
    idle_in_transaction_session_timeout: String(IDLE_MS),
    client_connection_check_interval: "5000", // a client that died is noticed while a statement runs
    cursor_tuple_fraction: "1", // all rows are wanted, not the first ones soon
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

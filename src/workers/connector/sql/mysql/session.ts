/**
 * One connection to MySQL or MariaDB, in one read-only transaction that ends with it. The driver may send one statement
 * at a time and no local file. A statement that still runs when the session ends is killed on the server, which notices
 * a closed connection only when it sends.
 */
import { connect, isIP, type Socket } from "node:net";
import { type Connection, createConnection } from "mysql2";
import type { Dialer } from "../../dialer.ts";
import { type Limits, SourceError } from "../../types.ts";
import type { Hide } from "../fault.ts";
import { tooLong } from "../lines.ts";
import { modeFor, type Server, type SslMode, trusted } from "../server.ts";
import { mysqlFault } from "./fault.ts";
import type { Column } from "./values.ts";

export type Endpoint = { server: Server; dialer: Dialer; limits: Limits; hide: Hide };
/** The bytes that the server sent, one buffer for each column. */
export type Row = (Buffer | null)[];

const KILL_MS = 800;
const LOCK_SECONDS = 30;
/** The server disconnects a client that reads nothing for this long. The consumer may pause. */
const WRITE_SECONDS = 600;
/** Few rows, since one may have megabytes. */
const BUFFERED_ROWS = 32;
const WATCH_MS = 100;
/** Overhead of the protocol, sockets and buffers for a row. */
const SLACK_BYTES = 32 * 2 ** 20;

export class MysqlSession implements AsyncDisposable {
  private running = false;

  private constructor(
    private readonly endpoint: Endpoint,
    private readonly connection: Connection,
    private readonly socket: Socket,
    private readonly signal: AbortSignal,
  ) {}

  static async open(endpoint: Endpoint, signal: AbortSignal): Promise<MysqlSession> {
    const { connection, socket } = await dial(endpoint, signal);
    const session = new MysqlSession(endpoint, connection, socket, signal);
    try {
      for (const text of await settings(session, endpoint.limits)) await session.run(text);
      return session;
    } catch (error) {
      await session[Symbol.asyncDispose]();
      throw error;
    }
  }

  run(text: string): Promise<Row[]> {
    return this.query((done) => this.connection.query<never>({ sql: text, ...ROWS }, done));
  }

  /** Returns the columns of the result without running the query. */
  async describe(text: string): Promise<Column[]> {
    const statement = await this.query<object>((done) => this.connection.prepare(text, done));
    return (statement as { columns: Column[] }).columns;
  }

  /** Yields rows one at a time, at the pace of the consumer. `onColumns` is called before the first. */
  async *stream(text: string, onColumns: (columns: Column[]) => void): AsyncGenerator<Row> {
    this.signal.throwIfAborted();
    this.running = true;
    const rows = this.connection.query({ sql: text, ...ROWS }).stream({ highWaterMark: BUFFERED_ROWS });
    rows.on("fields", onColumns as (fields: unknown) => void);
    const abort = () => void rows.destroy();
    const lost = (error: Error) => void rows.destroy(error); // the driver reports it only on the connection
    this.signal.addEventListener("abort", abort, { once: true });
    this.connection.on("error", lost);
    let taken = 0;
    let isWaiting = true; // false while the consumer uses a row
    using _watch = this.watch(lost, () => (isWaiting ? taken : undefined));
    try {
      for await (const row of rows) {
        isWaiting = false;
        taken++;
        yield row as Row;
        isWaiting = true;
      }
      this.signal.throwIfAborted();
      this.running = false;
    } catch (error) {
      this.signal.throwIfAborted();
      throw mysqlFault(error, this.endpoint, true);
    } finally {
      this.signal.removeEventListener("abort", abort);
      this.connection.off("error", lost);
    }
  }

  private async query<T>(ask: (done: (error: Error | null, answer: unknown) => void) => void): Promise<T> {
    this.signal.throwIfAborted();
    this.running = true;
    let onAbort = () => {};
    let watch: Disposable | undefined;
    try {
      const answer = await new Promise<unknown>((resolve, reject) => {
        onAbort = () => reject(this.signal.reason);
        this.signal.addEventListener("abort", onAbort, { once: true });
        watch = this.watch(reject, () => 0);
        ask((error, result) => (error ? reject(error) : resolve(result)));
      });
      this.running = false;
      return answer as T;
    } catch (error) {
      this.signal.throwIfAborted();
      throw mysqlFault(error, this.endpoint, true);
    } finally {
      watch?.[Symbol.dispose]();
      this.signal.removeEventListener("abort", onAbort);
    }
  }

  /**
   * Adds the limits that the driver lacks: its wait and its row length are unlimited. `taken` counts received rows;
   * undefined while no caller waits for one.
   */
  private watch(fail: (error: Error) => void, taken: () => number | undefined): Disposable {
    const { statementMs, connectMs, rowBytes } = this.endpoint.limits;
    const late = statementMs + connectMs; // the server stops the statement earlier, unless the network is down
    let [rows, since, bytes] = [taken(), Date.now(), this.socket.bytesRead];
    const timer = setInterval(() => {
      const now = taken();
      if (now === undefined || now !== rows) [rows, since, bytes] = [now, Date.now(), this.socket.bytesRead];
      else if (this.socket.bytesRead - bytes > rowBytes + SLACK_BYTES) fail(tooLong(now + 1, rowBytes));
      else if (Date.now() - since > late) fail(new SourceError("broken", `No answer within ${late} ms`));
    }, WATCH_MS);
    return { [Symbol.dispose]: () => clearInterval(timer) };
  }

  async [Symbol.asyncDispose]() {
    const { threadId } = this.connection;
    // otherwise the statement ends by its own timeout
    if (this.running && threadId) await kill(this.endpoint, threadId).catch(() => {});
    this.connection.destroy();
  }
}

/** Values stay the bytes that the server sent. */
const ROWS = { rowsAsArray: true, typeCast: false } as const;

async function kill(endpoint: Endpoint, threadId: number) {
  const signal = AbortSignal.timeout(KILL_MS);
  const { connection } = await dial(endpoint, signal);
  try {
    await new Promise<void>((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      connection.query(`KILL QUERY ${threadId}`, (error) => (error ? reject(error) : resolve()));
    });
  } finally {
    connection.destroy();
  }
}

/** Connects with the requested TLS mode. `prefer` continues without TLS only if the server has none. */
async function dial(endpoint: Endpoint, signal: AbortSignal): Promise<Connected> {
  signal.throwIfAborted();
  const address = await endpoint.dialer.resolve(endpoint.server.host, signal);
  const mode = modeFor(endpoint.server, address);
  const tls = tlsFor(endpoint, mode);
  try {
    return await login(endpoint, { address, tls, signal });
  } catch (error) {
    signal.throwIfAborted();
    if (mode !== "prefer" || (error as { code?: unknown }).code !== "HANDSHAKE_NO_SSL_SUPPORT")
      throw mysqlFault(error, endpoint, false);
  }
  return await login(endpoint, { address, tls: undefined, signal }).catch((error) => {
    signal.throwIfAborted();
    throw mysqlFault(error, endpoint, false);
  });
}

type Tls = { ca?: string[]; rejectUnauthorized: boolean; verifyIdentity?: boolean };
type Way = { address: string; tls: Tls | undefined; signal: AbortSignal };
type Connected = { connection: Connection; socket: Socket };

function login({ server, limits }: Endpoint, { address, tls, signal }: Way): Promise<Connected> {
  return new Promise((resolve, reject) => {
    const socket = connect(server.port, address);
    const connection = createConnection({
      host: server.host, // only for TLS: `stream` connects
      stream: () => socket,
      user: server.user,
      password: server.password,
      charset: "utf8mb4",
      connectTimeout: limits.connectMs,
      flags: ["-LOCAL_FILES"],
      ...(server.database === undefined ? {} : { database: server.database }),
      ...(tls === undefined ? {} : { ssl: tls as { rejectUnauthorized: boolean } }),
    });
    const fail = (error: unknown) => {
      signal.removeEventListener("abort", abort);
      connection.destroy();
      reject(error);
    };
    const abort = () => fail(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    connection.on("error", fail);
    connection.once("connect", () => {
      signal.removeEventListener("abort", abort);
      connection.off("error", fail);
      connection.on("error", () => {}); // pending queries report the error
      resolve({ connection, socket });
    });
  });
}

function tlsFor({ server, dialer }: Endpoint, mode: SslMode): Tls | undefined {
  if (mode === "disable") return undefined;
  if (mode === "prefer" || mode === "require") return { rejectUnauthorized: false };
  if (mode === "verify-full" && isIP(server.host) !== 0)
    throw new SourceError(
      "invalid_source",
      "sslmode verify-full compares the certificate with a host name, but host is an IP address. Use the host name, or verify-ca",
      "/db_connection/host",
    );
  const ca = trusted(server, dialer.ca);
  return { ca, rejectUnauthorized: true, verifyIdentity: mode === "verify-full" };
}

async function settings(session: MysqlSession, limits: Limits): Promise<string[]> {
  const version = (await session.run("SELECT @@version"))[0]?.[0]?.toString() ?? "";
  const timeout = /mariadb/i.test(version)
    ? `max_statement_time = ${limits.statementMs / 1000}`
    : `max_execution_time = ${limits.statementMs}`;
  return [
    `SET SESSION time_zone = '+00:00', lock_wait_timeout = ${LOCK_SECONDS}, net_write_timeout = ${WRITE_SECONDS}, ${timeout}`,
    "START TRANSACTION READ ONLY",
  ];
}

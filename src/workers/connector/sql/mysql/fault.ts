import { SourceError } from "../../types.ts";
import { told, type Verdict, withoutAddress } from "../fault.ts";
import type { Endpoint } from "./session.ts";

const QUERY = "/db_query";
const CONNECTION = "/db_connection";

const WRONG: Verdict = ["unauthorized", "/credentials/password", "The user or the password is wrong"];
const FORBIDDEN: Verdict = ["unauthorized", "/credentials", "This user may not read a table of db_query"];
const MISSING: Verdict = ["not_found", QUERY, "The table does not exist"];
const UNCLEAR: Verdict = ["invalid_source", QUERY, "The server rejects db_query"];
const FULL: Verdict = ["unreachable", null, "The server accepts no further connection. Try again later"];
const STOPPED: Verdict = ["broken", null, "The server ended the connection"];
const LOCKED: Verdict = ["broken", null, "Another transaction locks a table of db_query. Try again later"];

/** Error numbers of MySQL and MariaDB. */
const VERDICTS: Record<number, Verdict> = {
  1040: FULL,
  1044: FORBIDDEN,
  1045: WRONG,
  1049: ["not_found", CONNECTION, "The database does not exist"],
  1053: STOPPED,
  1060: [
    "invalid_source",
    QUERY,
    "db_query cannot be used: two columns have the same name. Rename one of them with AS",
  ],
  1129: ["unauthorized", CONNECTION, "The server does not allow connections from this machine"],
  1130: ["unauthorized", CONNECTION, "The server does not allow connections from this machine"],
  1142: FORBIDDEN,
  1143: FORBIDDEN,
  1146: MISSING,
  1203: FULL,
  1205: LOCKED,
  1226: FULL,
  1227: FORBIDDEN,
  1317: STOPPED,
  1370: FORBIDDEN,
  1698: WRONG,
  1792: ["invalid_source", QUERY, "db_query must be read-only"],
  1927: STOPPED,
  3954: UNCLEAR, // INTO, where only a query is allowed
};
const TIMEOUTS = [1969, 3024];
/** Verdicts by the class of the SQL state, for unknown numbers. */
const CLASSES: Record<string, Verdict> = {
  "22": ["invalid_source", QUERY, "db_query failed on the server"],
  "25": ["invalid_source", QUERY, "db_query must be read-only"],
  "28": WRONG,
  "42": UNCLEAR,
};

type DriverError = { errno?: unknown; code?: unknown; sqlState?: unknown; sqlMessage?: unknown; message?: unknown };

/** `connected`: the connection was lost, rather than never made. */
export function mysqlFault(error: unknown, { server, limits, hide }: Endpoint, connected: boolean): SourceError {
  if (error instanceof SourceError) return error;
  const { errno, code, sqlState, sqlMessage, message } = error as DriverError;
  const said = withoutAddress(hide(String(sqlMessage ?? message ?? error)));
  const where = `${server.host}:${server.port}`;
  if (typeof errno === "number" && TIMEOUTS.includes(errno))
    return new SourceError(
      "broken",
      `The statement took longer than ${limits.statementMs} ms (connectors.statement_timeout_ms) and was stopped`,
      QUERY,
    );
  if (typeof errno === "number" && typeof sqlState === "string") {
    const verdict = VERDICTS[errno] ?? CLASSES[sqlState.slice(0, 2)];
    return told(verdict ?? ["broken", QUERY, "The server aborted the query"], said);
  }
  if (code === "HANDSHAKE_NO_SSL_SUPPORT")
    return new SourceError(
      "unreachable",
      `${where} does not support TLS, but sslmode requires it. Change sslmode`,
      `${CONNECTION}/sslmode`,
    );
  if (code === "HANDSHAKE_SSL_ERROR")
    return new SourceError(
      "unreachable",
      `TLS with ${where} failed: ${said}. Set credentials.ca_cert to its certificate authority, or change sslmode`,
      CONNECTION,
    );
  if (connected) return new SourceError("broken", `The connection to ${where} was lost: ${said}`);
  return new SourceError("unreachable", `${where} cannot be reached: ${said}`, CONNECTION);
}

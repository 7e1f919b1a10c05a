import { SourceError } from "../../types.ts";
import { told, type Verdict, withoutAddress } from "../fault.ts";
import type { Place } from "./session.ts";

const QUERY = "/db_query";
const CONNECTION = "/db_connection";

const WRONG: Verdict = ["unauthorized", "/credentials/password", "User or password are wrong"];
const FORBIDDEN: Verdict = ["unauthorized", "/credentials", "This user may not read that"];
const MISSING: Verdict = ["not_found", QUERY, "There is no such table"];
const UNCLEAR: Verdict = ["invalid_source", QUERY, "The server does not understand db_query"];
const FULL: Verdict = ["unreachable", null, "The server has no room for another connection"];
const STOPPED: Verdict = ["broken", null, "The server ended the connection"];
const LOCKED: Verdict = ["broken", null, "Something else holds a lock on what db_query reads; try again later"];

/** Numbers of MySQL and MariaDB. */
const VERDICTS: Record<number, Verdict> = {
  1040: FULL,
  1044: FORBIDDEN,
  1045: WRONG,
  1049: ["not_found", CONNECTION, "There is no such database"],
  1053: STOPPED,
  1060: ["invalid_source", QUERY, "db_query cannot be used: two columns have the same name, give one another with AS"],
  1129: ["unauthorized", CONNECTION, "The server does not let this machine in"],
  1130: ["unauthorized", CONNECTION, "The server does not let this machine in"],
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
  1792: ["invalid_source", QUERY, "db_query may only read"],
  1927: STOPPED,
  3954: UNCLEAR, // INTO, where only a query may stand
};
const TIMEOUTS = [1969, 3024];
/** By the class of the SQL state, where the number is not known. */
const CLASSES: Record<string, Verdict> = {
  "22": ["invalid_source", QUERY, "db_query failed on the server"],
  "25": ["invalid_source", QUERY, "db_query may only read"],
  "28": WRONG,
  "42": UNCLEAR,
};

type Told = { errno?: unknown; code?: unknown; sqlState?: unknown; sqlMessage?: unknown; message?: unknown };

/** `connected`: it was there and went away, rather than never came. */
export function mysqlFault(error: unknown, { server, limits, hide }: Place, connected: boolean): SourceError {
  if (error instanceof SourceError) return error;
  const { errno, code, sqlState, sqlMessage, message } = error as Told;
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
    return told(verdict ?? ["broken", QUERY, "The server gave up"], said);
  }
  if (code === "HANDSHAKE_NO_SSL_SUPPORT")
    return new SourceError("unreachable", `${where} offers no TLS; sslmode asks for it`, `${CONNECTION}/sslmode`);
  if (code === "HANDSHAKE_SSL_ERROR")
    return new SourceError(
      "unreachable",
      `TLS with ${where} failed: ${said}. Give its authority as credentials.ca_cert, or another sslmode`,
      CONNECTION,
    );
  if (connected) return new SourceError("broken", `The connection to ${where} was cut: ${said}`);
  return new SourceError("unreachable", `${where} cannot be reached: ${said}`, CONNECTION);
}

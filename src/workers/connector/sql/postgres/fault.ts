import { errorText } from "../../../../lib/error_text.ts";
import { errorCode } from "../../../../platform/files.ts";
import { SourceError } from "../../types.ts";
import { told, type Verdict, withoutAddress } from "../fault.ts";
import type { Endpoint } from "./session.ts";

const QUERY = "/db_query";
const CONNECTION = "/db_connection";

/** Keys are a SQLSTATE, or the two characters of its class. */
const VERDICTS: Record<string, Verdict> = {
  "28": ["unauthorized", "/credentials", "The server rejects this user"],
  "28P01": ["unauthorized", "/credentials/password", "The user or the password is wrong"],
  "3D000": ["not_found", CONNECTION, "The database does not exist"],
  "42501": ["unauthorized", "/credentials", "This user may not read a table of db_query"],
  "42P01": ["not_found", QUERY, "The table does not exist"],
  "3F000": ["not_found", QUERY, "The schema does not exist"],
  "42": ["invalid_source", QUERY, "The server rejects db_query"],
  "0A": ["invalid_source", QUERY, "db_query cannot be read row by row"],
  "22": ["invalid_source", QUERY, "db_query failed on the server"],
  "25": ["invalid_source", QUERY, "db_query must be read-only"],
  "53": ["unreachable", null, "The server accepts no further connection. Try again later"],
  "55P03": ["broken", null, "Another transaction locks a table of db_query. Try again later"],
  "57P01": ["broken", null, "The server was shut down"],
  "57P03": ["unreachable", null, "The server is starting or stopping. Try again later"],
};

const TLS = /CERT|TLS|SSL|VERIFY|SIGNATURE|SELF_SIGNED|ALTNAME/;

/** `connected`: the connection was lost, rather than never made. */
export function postgresFault(error: unknown, { server, limits, hide }: Endpoint, connected: boolean): SourceError {
  const where = `${server.host}:${server.port}`;
  const { errno } = error as { errno?: unknown };
  const said = withoutAddress(hide(errorText(error)));
  if (typeof errno === "string" && /^[0-9A-Z]{5}$/.test(errno)) {
    if (errno === "57014" && said.includes("timeout"))
      return new SourceError(
        "broken",
        `The statement took longer than ${limits.statementMs} ms (connectors.statement_timeout_ms) and was stopped`,
        QUERY,
      );
    return told(
      VERDICTS[errno] ?? VERDICTS[errno.slice(0, 2)] ?? ["broken", QUERY, "The server aborted the query"],
      said,
    );
  }
  const code = errorCode(error) ?? "";
  if (/SSL_NOT_AVAILABLE|TLS_NOT_AVAILABLE/.test(code))
    return new SourceError(
      "unreachable",
      `${where} does not support TLS, but sslmode requires it. Change sslmode`,
      `${CONNECTION}/sslmode`,
    );
  if (TLS.test(code))
    return new SourceError(
      "unreachable",
      `TLS with ${where} failed (${code}): ${said}. Set credentials.ca_cert to its certificate authority, or change sslmode`,
      CONNECTION,
    );
  if (/AUTH|PASSWORD|SASL/.test(code)) return told(VERDICTS["28"]!, said);
  if (connected) return new SourceError("broken", `The connection to ${where} was lost: ${said}`);
  return new SourceError("unreachable", `${where} cannot be reached: ${said}`, CONNECTION);
}

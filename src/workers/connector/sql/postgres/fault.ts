import { errorCode } from "../../../../platform/files.ts";
import { SourceError } from "../../types.ts";
import { told, type Verdict, withoutAddress } from "../fault.ts";
import type { Place } from "./session.ts";

const QUERY = "/db_query";
const CONNECTION = "/db_connection";

/** SQLSTATE, or the two characters of its class. */
const VERDICTS: Record<string, Verdict> = {
  "28": ["unauthorized", "/credentials", "The server does not let this user in"],
  "28P01": ["unauthorized", "/credentials/password", "User or password are wrong"],
  "3D000": ["not_found", CONNECTION, "There is no such database"],
  "42501": ["unauthorized", "/credentials", "This user may not read that"],
  "42P01": ["not_found", QUERY, "There is no such table"],
  "3F000": ["not_found", QUERY, "There is no such schema"],
  "42": ["invalid_source", QUERY, "The server does not understand db_query"],
  "0A": ["invalid_source", QUERY, "db_query cannot be read row by row"],
  "22": ["invalid_source", QUERY, "db_query failed on the server"],
  "25": ["invalid_source", QUERY, "db_query may only read"],
  "53": ["unreachable", null, "The server has no room for another connection"],
  "55P03": ["broken", null, "Something else holds a lock on what db_query reads; try again later"],
  "57P01": ["broken", null, "The server was shut down"],
  "57P03": ["unreachable", null, "The server is starting or stopping; try again later"],
};

const TLS = /CERT|TLS|SSL|VERIFY|SIGNATURE|SELF_SIGNED|ALTNAME/;

/** `connected`: it was there and went away, rather than never came. */
export function postgresFault(error: unknown, { server, limits, hide }: Place, connected: boolean): SourceError {
  const where = `${server.host}:${server.port}`;
  const { errno } = error as { errno?: unknown };
  const said = withoutAddress(hide(error instanceof Error ? error.message : String(error)));
  if (typeof errno === "string" && /^[0-9A-Z]{5}$/.test(errno)) {
    if (errno === "57014" && said.includes("timeout"))
      return new SourceError(
        "broken",
        `The statement took longer than ${limits.statementMs} ms (connectors.statement_timeout_ms) and was stopped`,
        QUERY,
      );
    return told(VERDICTS[errno] ?? VERDICTS[errno.slice(0, 2)] ?? ["broken", QUERY, "The server gave up"], said);
  }
  const code = errorCode(error) ?? "";
  if (/SSL_NOT_AVAILABLE|TLS_NOT_AVAILABLE/.test(code))
    return new SourceError("unreachable", `${where} offers no TLS; sslmode asks for it`, `${CONNECTION}/sslmode`);
  if (TLS.test(code))
    return new SourceError(
      "unreachable",
      `TLS with ${where} failed (${code}): ${said}. Give its authority as credentials.ca_cert, or another sslmode`,
      CONNECTION,
    );
  if (/AUTH|PASSWORD|SASL/.test(code)) return told(VERDICTS["28"]!, said);
  if (connected) return new SourceError("broken", `The connection to ${where} was cut: ${said}`);
  return new SourceError("unreachable", `${where} cannot be reached: ${said}`, CONNECTION);
}

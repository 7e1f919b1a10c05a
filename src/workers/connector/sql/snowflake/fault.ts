import { z } from "zod";
import { SourceError } from "../../types.ts";
import { type Hide, told, type Verdict } from "../fault.ts";

const Refused = z.object({
  code: z.coerce.string().default(""),
  sqlState: z.string().default(""),
  message: z.string().default(""),
});

const QUERY = "/db_query";
const FORBIDDEN: Verdict = ["unauthorized", "/credentials", "This role may not read a table of db_query"];

/** Snowflake's own error numbers. */
const VERDICTS: Record<string, Verdict> = {
  "000604": ["broken", QUERY, "The statement was cancelled"],
  "000606": [
    "invalid_source",
    "/db_connection/warehouse",
    "No warehouse is active for this query. Set db_connection.warehouse",
  ],
  "000630": ["broken", QUERY, "The statement took longer than connectors.statement_timeout_ms and was stopped"],
  "001003": ["invalid_source", QUERY, "Snowflake rejects db_query"],
  "002003": ["not_found", QUERY, "The table does not exist, or this role may not see it"],
  "002043": ["not_found", "/db_connection", "The database, schema or warehouse does not exist"],
  "003001": FORBIDDEN,
  "390144": ["unauthorized", "/credentials/private_key", "Snowflake rejects this key for this user"],
  "390186": ["unauthorized", "/db_connection/role", "This user may not use that role"],
  "390201": ["not_found", "/db_connection", "The warehouse, database or role does not exist"],
};
const CLASSES: Record<string, Verdict> = {
  "22": ["invalid_source", QUERY, "db_query failed in Snowflake"],
  "28": ["unauthorized", "/credentials", "Snowflake rejects this user"],
  "42": ["invalid_source", QUERY, "Snowflake rejects db_query"],
};

export function snowflakeFault(status: number, body: unknown, hide: Hide): SourceError {
  const parsed = Refused.safeParse(body);
  const { code, sqlState, message } = parsed.success ? parsed.data : { code: "", sqlState: "", message: "" };
  const said = hide(message);
  const verdict = VERDICTS[code] ?? (status === 401 ? CLASSES["28"] : CLASSES[sqlState.slice(0, 2)]);
  if (verdict) return told(verdict, said);
  if (status === 403) return told(FORBIDDEN, said);
  if (status === 408) return told(VERDICTS["000630"]!, said);
  if (status === 404)
    return told(["not_found", "/db_connection/account", "The account or the statement does not exist"], said);
  if (status === 422) return told(["broken", QUERY, "Snowflake aborted the query"], said);
  return new SourceError("unreachable", `Snowflake answered ${status} ${said}`.trim());
}

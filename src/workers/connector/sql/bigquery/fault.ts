import { z } from "zod";
import { SourceError } from "../../types.ts";
import { type Hide, told, type Verdict } from "../fault.ts";

const Reasons = z.array(z.object({ reason: z.string().default(""), message: z.string().default("") }));
const Refused = z.object({ error: z.object({ message: z.string().default(""), errors: Reasons.default([]) }) });

const QUERY = "/db_query";
const FORBIDDEN: Verdict = ["unauthorized", "/credentials", "These credentials may not read a table of db_query"];
const BUSY: Verdict = ["unreachable", null, "BigQuery is busy. Try again later"];

/** BigQuery's own error reasons. */
const VERDICTS: Record<string, Verdict> = {
  accessDenied: FORBIDDEN,
  billingNotEnabled: ["unauthorized", "/db_connection/project_id", "This project may not run queries"],
  bytesBilledLimitExceeded: ["invalid_source", QUERY, "db_query would read more than maximum_bytes_billed"],
  duplicate: BUSY,
  invalid: ["invalid_source", QUERY, "BigQuery rejects db_query"],
  invalidQuery: ["invalid_source", QUERY, "BigQuery rejects db_query"],
  notFound: ["not_found", QUERY, "The table, dataset or project does not exist"],
  quotaExceeded: BUSY,
  rateLimitExceeded: BUSY,
  resourcesExceeded: ["invalid_source", QUERY, "db_query needs more resources than BigQuery allows"],
  responseTooLarge: ["invalid_source", QUERY, "The result of db_query is larger than BigQuery returns"],
  stopped: ["broken", QUERY, "The query was stopped"],
  timeout: ["broken", QUERY, "The query took longer than connectors.statement_timeout_ms and was stopped"],
};

export function bigqueryFault(status: number, body: unknown, hide: Hide): SourceError {
  const parsed = Refused.safeParse(body);
  const { message, errors } = parsed.success ? parsed.data.error : { message: "", errors: [] };
  const said = hide(message);
  if (status === 401)
    return told(
      ["unauthorized", "/credentials", "Google rejects these credentials. They are wrong or have expired"],
      said,
    );
  const reason = errors[0]?.reason ?? "";
  const verdict = VERDICTS[reason] ?? (status === 403 ? FORBIDDEN : status === 404 ? VERDICTS["notFound"] : undefined);
  if (verdict) return told(verdict, said);
  if (status === 400) return told(VERDICTS["invalidQuery"]!, said);
  return new SourceError("unreachable", `BigQuery answered ${status} ${said}`.trim());
}

import { z } from "zod";
import { PageQuery } from "../../../http/answer/pagination.ts";
import type { AuditRow } from "../../../http/audit.ts";
import type { Named } from "../../../lib/route_names.ts";
import { DateTime, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";

export const AuditEntry = later(() =>
  z
    .object({
      object: z.literal("audit_log.entry"),
      id: z.string(),
      created_at: DateTime,
      key: z
        .object({ id: z.string(), name: z.string().nullable() })
        .describe("The key that was used, or cli:ACCOUNT for a command on the server's machine"),
      user: z
        .object({ id: z.string(), email: z.string().nullable(), name: z.string().nullable() })
        .nullable()
        .describe("The person behind the key; null: the key of a service, or a command on the server's machine"),
      method: z.string().describe("HTTP method, or CLI for a command"),
      route: z.string().describe("For example /v1/training_jobs/{id}/cancel or verk keys create"),
      resource_ids: z
        .record(z.string(), z.string())
        .describe("Values of the route's parameters, and `created`: the id of the new resource"),
      address: z.string().nullable().describe("Address that the call came from"),
      status: z.int().describe("HTTP status of the answer"),
      request_id: z.string(),
    })
    .meta({ id: "AuditEntry" }),
);
export type AuditEntry = z.infer<typeof AuditEntry>;

export const AuditQuery = later(() =>
  PageQuery.extend({
    key_id: z.string().optional().describe("Only calls with this key"),
    user_id: z.string().optional().describe("Only calls of this user, with any key or session"),
  }),
);
export type AuditQuery = z.infer<typeof AuditQuery>;

type Names = { named: Named | undefined; keyName: string | null; user: AuditEntry["user"] };

export const present = (row: AuditRow, { named, keyName, user }: Names): AuditEntry => ({
  object: "audit_log.entry",
  id: row.id,
  created_at: isoTime(row.createdAt),
  key: { id: row.keyId, name: keyName },
  user,
  method: row.method,
  route: named?.route ?? row.path,
  resource_ids: { ...named?.params, ...(row.made === null ? {} : { created: row.made }) },
  address: row.address,
  status: row.status,
  request_id: row.requestId,
});

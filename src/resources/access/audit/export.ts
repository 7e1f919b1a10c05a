/** The audit log as entries of a hash chain; see lib/audit_chain.ts. */
import { and, asc, eq, gt } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { type AuditRow, auditLog } from "../../../http/audit.ts";
import { type Entry, signerOf } from "../../../lib/audit_chain.ts";
import { isoTime } from "../../../lib/time.ts";
import { workspaces } from "../workspaces/table.ts";

const PAGE = 1_000;

/** The key changes with the master key. */
export const signer = ({ secrets }: Pick<Ctx, "secrets">) => signerOf(secrets.derive("audit-export"));

/** Every entry of one workspace, or of all. Ids are in the order of time within a workspace. */
export function* entries({ db }: Pick<Ctx, "db">, only?: string): Generator<Entry> {
  const ids =
    only === undefined
      ? db
          .select({ id: workspaces.id })
          .from(workspaces)
          .all()
          .map(({ id }) => id)
      : [only];
  for (const workspaceId of ids.sort())
    for (let after = ""; ; ) {
      const rows = db
        .select()
        .from(auditLog)
        .where(and(eq(auditLog.workspaceId, workspaceId), gt(auditLog.id, after)))
        .orderBy(asc(auditLog.id))
        .limit(PAGE)
        .all();
      yield* rows.map(present);
      if (rows.length < PAGE) break;
      after = rows.at(-1)?.id ?? "";
    }
}

/** The path as it was called: route names belong to a version of the program. */
const present = (row: AuditRow): Entry => ({
  id: row.id,
  workspace_id: row.workspaceId,
  created_at: isoTime(row.createdAt),
  key_id: row.keyId,
  user_id: row.userId,
  method: row.method,
  path: row.path,
  created: row.made,
  status: row.status,
  address: row.address,
  request_id: row.requestId,
});

import { spreadsheetCell } from "../../../lib/text/csv.ts";
import type { AuditEntry } from "../../../resources/access/audit/schema.ts";

export type Filter = { text: string; result: string };

/** `result`: "ok", "refused" or empty for both. The text is compared with every field, in any case. */
export function matches(entry: AuditEntry, { text, result }: Filter): boolean {
  if (result === "ok" && entry.status >= 400) return false;
  if (result === "refused" && entry.status < 400) return false;
  const { method, route, address, request_id, key, user, resource_ids } = entry;
  const people = [key.id, key.name, user?.id, user?.email, user?.name];
  const fields = [method, route, address, request_id, ...people, ...Object.values(resource_ids)];
  return text === "" || fields.join(" ").toLowerCase().includes(text.toLowerCase());
}

const COLUMNS = ["created_at", "key", "user", "method", "route", "resources", "status", "address", "request_id"];

export function csvOf(entries: readonly AuditEntry[]): string {
  const lines = entries.map(({ created_at, key, user, method, route, resource_ids, status, address, request_id }) =>
    [
      ...[created_at, key.name ?? key.id, user?.email ?? user?.id ?? "", method, route],
      ...[JSON.stringify(resource_ids), String(status), address ?? "", request_id],
    ]
      .map(spreadsheetCell)
      .join(","),
  );
  return `${[COLUMNS.join(","), ...lines].join("\r\n")}\r\n`;
}

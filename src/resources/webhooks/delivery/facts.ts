import { type Db, prepared } from "../../../platform/db/db.ts";
import type { EndpointRow } from "../table.ts";
import type { Delivery, Endpoint, Trigger } from "./verdict.ts";

/** What decides about an attempt, and what its end changes: of a delivery and its endpoint, in one read. */
export type Facts = {
  endpointId: string;
  workspaceId: string;
  eventId: string;
  /** Of its scheduled attempts. */
  trigger: Trigger;
  /** One attempt by hand was asked for then. */
  resendAt: number | null;
  delivery: Delivery;
  endpoint: Endpoint;
};
/** What an attempt sends, and where. */
export type Sealed = Pick<EndpointRow, "url" | "secrets" | "scheme"> & { body: Uint8Array<ArrayBuffer> | null };

type Row = Pick<Facts, "endpointId" | "workspaceId" | "eventId" | "trigger" | "resendAt"> &
  Omit<Delivery, "id"> & { endpointStatus: Endpoint["status"] } & Omit<Endpoint, "status">;

const FACTS = `d.endpoint_id AS endpointId, d.workspace_id AS workspaceId, d.event_id AS eventId, d.trigger, d.resend_at AS resendAt, d.status,
  d.attempt_count AS attemptCount, d.scheduled_count AS scheduledCount, d.event_created_at AS createdAtMs,
  d.due_at AS dueAtMs, e.status AS endpointStatus, e.consecutive_failures AS consecutiveFailures,
  e.disabled_at AS disabledAtMs`;
const BOTH = "webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id";

const byId = prepared((db) => db.$client.prepare<Row, [string]>(`SELECT ${FACTS} FROM ${BOTH} WHERE d.id = ?`));
const toSend = prepared((db) =>
  db.$client.prepare<Row & Sealed, [string]>(
    `SELECT ${FACTS}, e.url, e.secrets, e.scheme, b.body FROM ${BOTH}
     LEFT JOIN webhook_bodies b ON b.event_id = d.event_id WHERE d.id = ?`,
  ),
);

/** Undefined: its workspace is gone, and the row with it. */
export function factsOf(db: Db, deliveryId: string): Facts | undefined {
  const row = byId(db).get(deliveryId);
  return row ? factsIn(row, deliveryId) : undefined;
}

/** With what is to be sent. */
export function parcelOf(db: Db, deliveryId: string): (Facts & Sealed) | undefined {
  const row = toSend(db).get(deliveryId);
  if (!row) return undefined;
  const { url, secrets, scheme, body } = row;
  return { ...factsIn(row, deliveryId), url, secrets, scheme, body };
}

function factsIn(row: Row, id: string): Facts {
  const { endpointId, workspaceId, eventId, trigger, resendAt } = row;
  const { status, attemptCount, scheduledCount, createdAtMs, dueAtMs } = row;
  const { endpointStatus, consecutiveFailures, disabledAtMs } = row;
  return {
    endpointId,
    workspaceId,
    eventId,
    trigger,
    resendAt,
    delivery: { id, status, attemptCount, scheduledCount, createdAtMs, dueAtMs },
    endpoint: { status: endpointStatus, consecutiveFailures, disabledAtMs },
  };
}

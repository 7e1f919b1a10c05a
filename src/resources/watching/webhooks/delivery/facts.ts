import { type Db, prepared } from "../../../../platform/db/db.ts";
import type { EndpointRow } from "../table.ts";
import type { Delivery, Endpoint, Trigger } from "./verdict.ts";

/** A delivery and its endpoint in one read: everything that decides about an attempt and that its result changes. */
export type DeliveryFacts = {
  endpointId: string;
  workspaceId: string;
  eventId: string;
  /** The trigger of scheduled attempts. */
  trigger: Trigger;
  /** When a resend by hand was requested; null: none is pending. */
  resendAt: number | null;
  delivery: Delivery;
  endpoint: Endpoint;
};
type Request = Pick<EndpointRow, "url" | "secrets" | "scheme"> & { body: Uint8Array<ArrayBuffer> | null };
/** The facts, and the request that an attempt sends. */
export type AttemptFacts = DeliveryFacts & Request;

type Row = Pick<DeliveryFacts, "endpointId" | "workspaceId" | "eventId" | "trigger" | "resendAt"> &
  Omit<Delivery, "id"> & { endpointStatus: Endpoint["status"] } & Omit<Endpoint, "status">;

const FACTS = `d.endpoint_id AS endpointId, d.workspace_id AS workspaceId, d.event_id AS eventId, d.trigger, d.resend_at AS resendAt, d.status,
  d.attempt_count AS attemptCount, d.scheduled_count AS scheduledCount, d.event_created_at AS createdAtMs,
  d.due_at AS dueAtMs, e.status AS endpointStatus, e.consecutive_failures AS consecutiveFailures,
  e.disabled_at AS disabledAtMs`;
const BOTH = "webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id";

const byId = prepared((db) => db.$client.prepare<Row, [string]>(`SELECT ${FACTS} FROM ${BOTH} WHERE d.id = ?`));
const toSend = prepared((db) =>
  db.$client.prepare<Row & Request, [string]>(
    `SELECT ${FACTS}, e.url, e.secrets, e.scheme, b.body FROM ${BOTH}
     LEFT JOIN webhook_bodies b ON b.event_id = d.event_id WHERE d.id = ?`,
  ),
);

/** Undefined: the row was deleted with its workspace. */
export function readFacts(db: Db, deliveryId: string): DeliveryFacts | undefined {
  const row = byId(db).get(deliveryId);
  return row ? factsIn(row, deliveryId) : undefined;
}

export function readAttempt(db: Db, deliveryId: string): AttemptFacts | undefined {
  const row = toSend(db).get(deliveryId);
  if (!row) return undefined;
  const { url, secrets, scheme, body } = row;
  return { ...factsIn(row, deliveryId), url, secrets, scheme, body };
}

function factsIn(row: Row, id: string): DeliveryFacts {
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

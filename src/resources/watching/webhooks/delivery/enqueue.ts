import type { EventRow } from "../../../../events/table.ts";
import { newId } from "../../../../lib/ids.ts";
import { isoTime } from "../../../../lib/time.ts";
import { prepared, type Tx } from "../../../../platform/db/db.ts";
import { preparedInsert } from "../../../../platform/db/row.ts";
import { type DeliveryRow, type EndpointRow, webhookDeliveries } from "../table.ts";
import { expiryOf } from "./retry_schedule.ts";
import { firstState, newDelivery } from "./verdict.ts";

/** An event as its row holds it. */
export type RecordedEvent = { id: string; type: string; createdAtMs: number; data: Readonly<Record<string, unknown>> };

/** The JSON of an event in a delivery and in the pull feed, with its fields in this order. */
const payloadOf = ({ id, type, createdAtMs, data }: RecordedEvent) => ({
  id,
  type,
  created_at: isoTime(createdAtMs),
  data,
});

const encoder = new TextEncoder();

/**
 * The bytes that are signed and sent. They depend on the row alone, so every attempt at every endpoint sends the same
 * bytes, also after a restart. They are well-formed UTF-8, because a lone surrogate is written as an escape. So
 * receivers that decode before they verify get the same content.
 */
export function bodyOf(event: RecordedEvent): Uint8Array<ArrayBuffer> {
  if (!/^evt_[0-9a-z]+$/.test(event.id)) throw new Error(`The id of an event must begin with evt_: ${event.id}`);
  if (!Number.isSafeInteger(event.createdAtMs))
    throw new Error(`The creation time of event ${event.id} is not a whole millisecond`);
  if (typeof event.data !== "object" || event.data === null || Array.isArray(event.data))
    throw new Error(`The data of event ${event.id} is not an object`);
  return encoder.encode(JSON.stringify(payloadOf(event)));
}

export type QueuedEvent = Pick<EventRow, "id" | "workspaceId" | "type" | "createdAt" | "data">;
type Recipient = { endpoint: Pick<EndpointRow, "id" | "status">; trigger: "scheduled" | "test"; now: number };

const insert = preparedInsert(webhookDeliveries);
const insertBody = prepared((db) =>
  db.$client.prepare(
    "INSERT INTO webhook_bodies (event_id, workspace_id, body, created_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
  ),
);

/** The only way deliveries are created. A delivery to a disabled endpoint is held, one to a deleted endpoint cancelled. */
export function enqueueAll(tx: Tx, event: QueuedEvent, tos: readonly Recipient[]): DeliveryRow[] {
  const { id, workspaceId, type, createdAt, data } = event;
  if (tos.length === 0) return [];
  const body = bodyOf({ id, type, createdAtMs: createdAt, data: data as Record<string, unknown> }); // emit() takes objects only
  return enqueueBody(tx, { id, workspaceId, type, createdAt, body }, tos);
}

export const enqueue = (tx: Tx, event: QueuedEvent, to: Recipient): DeliveryRow =>
  enqueueAll(tx, event, [to])[0] as DeliveryRow;

type EventKey = Pick<EventRow, "id" | "workspaceId" | "type" | "createdAt">;
type EventBody = EventKey & { body: Uint8Array };

/** Queues an event whose body the caller has made. */
export function enqueueBody(tx: Tx, event: EventBody, tos: readonly Recipient[]): DeliveryRow[] {
  insertBody(tx).run(event.id, event.workspaceId, event.body, event.createdAt);
  return tos.map((to) => insertDelivery(tx, event, to));
}

function insertDelivery(tx: Tx, event: EventKey, { endpoint, trigger, now }: Recipient): DeliveryRow {
  const id = newId("dlv", now);
  const fresh = firstState(newDelivery(id, event.createdAt), endpoint, now);
  const { status, attemptCount, scheduledCount, dueAtMs } = fresh;
  return insert(tx, {
    id,
    endpointId: endpoint.id,
    workspaceId: event.workspaceId,
    eventId: event.id,
    eventType: event.type,
    eventCreatedAt: event.createdAt,
    status,
    trigger,
    attemptCount,
    scheduledCount,
    dueAt: dueAtMs,
    resendAt: null,
    expiresAt: expiryOf(event.createdAt),
    lastResponseCode: null,
    lastError: status === "cancelled" ? CANCELLED : status === "exhausted" ? EXPIRED : null,
    createdAt: now,
    updatedAt: now,
  });
}

export const CANCELLED = "The endpoint was deleted before the delivery";
export const EXPIRED = "The endpoint did not acknowledge the event within 72 hours";

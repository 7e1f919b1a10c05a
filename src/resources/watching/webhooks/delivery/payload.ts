import { isoTime } from "../../../../lib/time.ts";

/** An event as its row holds it. */
export type RecordedEvent = { id: string; type: string; createdAtMs: number; data: Readonly<Record<string, unknown>> };

/** The JSON of an event in a delivery and in the pull feed, with its fields in this order. */
export const payloadOf = ({ id, type, createdAtMs, data }: RecordedEvent) => ({
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

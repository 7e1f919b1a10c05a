import { isoTime } from "../../../lib/time.ts";

/** An event as its row holds it. */
export type Recorded = { id: string; type: string; createdAtMs: number; data: Readonly<Record<string, unknown>> };

/** What a delivery and the pull feed say of an event, in this order. */
export const payloadOf = ({ id, type, createdAtMs, data }: Recorded) => ({
  id,
  type,
  created_at: isoTime(createdAtMs),
  data,
});

const encoder = new TextEncoder();

/**
 * The bytes that are signed and sent. They follow from the row alone: its JSON text, parsed and written again, is the
 * same text, so every attempt at every endpoint sends the same bytes, a restart in between or not. Well-formed UTF-8
 * always (a lone surrogate is written as an escape): receivers that decode before they verify get the same content.
 */
export function bodyOf(event: Recorded): Uint8Array<ArrayBuffer> {
  if (!/^evt_[0-9a-z]+$/.test(event.id)) throw new Error(`An event's id begins with evt_, not ${event.id}`);
  if (!Number.isSafeInteger(event.createdAtMs))
    throw new Error(`Event ${event.id} was created at no whole millisecond`);
  if (typeof event.data !== "object" || event.data === null || Array.isArray(event.data))
    throw new Error(`The data of event ${event.id} is not an object`);
  return encoder.encode(JSON.stringify(payloadOf(event)));
}

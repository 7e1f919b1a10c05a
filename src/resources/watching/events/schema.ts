import { z } from "zod";
import { EVENT_TYPES, type EventType } from "../../../events/catalog.ts";
import type { EventRow } from "../../../events/table.ts";
import { DateTime, later, numberText } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";

export const Event = later(() =>
  z
    .object({
      object: z.literal("event"),
      id: z.string(),
      type: z.enum(EVENT_TYPES),
      created_at: DateTime,
      data: z
        .record(z.string(), z.unknown())
        .describe("The resource the event is about; its shape follows from the type"),
    })
    .meta({ id: "Event" }),
);
export type Event = z.infer<typeof Event>;

export const EventList = later(() =>
  z.object({ object: z.literal("list"), data: z.array(Event), has_more: z.boolean() }).meta({ id: "EventList" }),
);

export const EventQuery = z.object({
  after: z
    .string()
    .optional()
    .describe("Id of the last event seen, or latest. The feed continues after it, oldest first"),
  order: z
    .enum(["asc", "desc"])
    .default("asc")
    .describe("desc: newest first, to read back in the history; after is then the oldest event seen. Not for a stream"),
  limit: numberText(z.int().min(1).max(100)).default(20).describe("How many events at most"),
  types: z.string().max(2000).optional().describe("Only these types, separated by commas"),
  stream: z.enum(["0", "1"]).default("0").describe("1 keeps the connection open and sends events as they happen (SSE)"),
});
export type EventQuery = z.infer<typeof EventQuery>;

export const present = (row: EventRow): Event => ({
  object: "event",
  id: row.id,
  type: row.type as EventType, // only emit() writes rows, and it takes nothing else
  created_at: isoTime(row.createdAt),
  data: row.data as Record<string, unknown>,
});

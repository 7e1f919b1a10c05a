import { CATALOG, EVENT_TYPES, type EventType } from "../../../events/catalog.ts";

/** Event types that an endpoint can subscribe to. */
export const PUBLISHED = EVENT_TYPES.filter((type) => CATALOG[type].webhook);

/** The delivery of a test event is created with it, for one endpoint. */
export const TEST = "webhook.test" satisfies EventType;

export const isFannedOut = (type: string): boolean => type !== TEST && (PUBLISHED as string[]).includes(type);

/** An empty list means all types. */
export const wants = (eventTypes: readonly string[], type: string): boolean =>
  eventTypes.length === 0 || eventTypes.includes(type);

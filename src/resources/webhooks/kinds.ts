import { CATALOG, EVENT_TYPES, type EventType } from "../../events/catalog.ts";

/** What an endpoint can ask for. */
export const PUBLISHED = EVENT_TYPES.filter((type) => CATALOG[type].webhook);

/** Its delivery is made with it, for the endpoint it is about and no other. */
export const TEST = "webhook.test" satisfies EventType;

export const isFannedOut = (type: string): boolean => type !== TEST && (PUBLISHED as string[]).includes(type);

/** Whether an endpoint wants it; none listed means all. */
export const wants = (eventTypes: readonly string[], type: string): boolean =>
  eventTypes.length === 0 || eventTypes.includes(type);

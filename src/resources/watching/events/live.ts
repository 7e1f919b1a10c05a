import type { Hub } from "./hub.ts";

/** The state of event streams that lives in this process (`ctx.state.events`). */
export class EventsState {
  /** Workspace → the hub that its streams share. */
  readonly hubs = new Map<string, Hub>();
}

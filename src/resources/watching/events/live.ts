import type { Hub } from "./hub.ts";

declare module "../../../context.ts" {
  interface State {
    readonly events: EventsState;
  }
}

/** The state of event streams that lives in this process (`ctx.state.events`). */
export class EventsState {
  /** Workspace → the hub that its streams share. */
  readonly hubs = new Map<string, Hub>();
}

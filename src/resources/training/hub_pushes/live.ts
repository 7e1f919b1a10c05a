import { Semaphore } from "../../../platform/semaphore.ts";

declare module "../../../context.ts" {
  interface State {
    readonly hubPushes: HubPushesState;
  }
}

/** The state of pushes that lives in this process (`ctx.state.hubPushes`). */
export class HubPushesState {
  /** Pushes at the same time. */
  readonly permits = new Semaphore({ name: "pushes to the hub", permits: 2 });
  /** Push → its end in this process, and the way to stop it. */
  readonly running = new Map<string, { over: Promise<void>; stop: AbortController }>();
  isSwept = false;
}

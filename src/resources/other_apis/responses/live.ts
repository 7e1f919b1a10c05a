import { Semaphore } from "../../../platform/semaphore.ts";

declare module "../../../context.ts" {
  interface State {
    readonly responses: ResponsesState;
  }
}

type Running = { stop: AbortController; done: Promise<void> };

/** Background responses that this process works on (`ctx.state.responses`). */
export class ResponsesState {
  readonly running = new Map<string, Running>();
  readonly permits = new Semaphore({ name: "background responses", permits: 12, mostEach: 8 });
  /** Resolves when there may be a response to start. */
  bell = Promise.withResolvers<void>();
}

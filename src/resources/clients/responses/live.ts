type Running = { stop: AbortController; done: Promise<void> };

/** Background responses that this process works on (`ctx.state.responses`). */
export class ResponsesState {
  readonly running = new Map<string, Running>();
  /** Resolves when there may be a response to start. */
  bell = Promise.withResolvers<void>();
}

import { Semaphore } from "../../../platform/semaphore.ts";

declare module "../../../context.ts" {
  interface State {
    readonly inferenceBatches: InferenceBatchesState;
  }
}

type Running = { batchId: string; stop: AbortController; done: Promise<void> };

/** Work on batches that this process does (`ctx.state.inferenceBatches`), by batch and number of the item. */
export class InferenceBatchesState {
  readonly running = new Map<string, Running>();
  readonly permits = new Semaphore({ name: "requests of batches", permits: 12, mostEach: 8 });
  /** Resolves when there may be work to start. */
  bell = Promise.withResolvers<void>();
}

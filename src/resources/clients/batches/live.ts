type Running = { batchId: string; workspaceId: string; stop: AbortController; done: Promise<void> };

/** Work on batches that this process does (`ctx.state.inferenceBatches`), by batch and number of the item. */
export class InferenceBatchesState {
  readonly running = new Map<string, Running>();
  /** Resolves when there may be work to start. */
  bell = Promise.withResolvers<void>();
}

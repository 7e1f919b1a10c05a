import { Semaphore } from "../../../platform/semaphore.ts";

declare module "../../../context.ts" {
  interface State {
    readonly vectorStores: VectorStoresState;
  }
}

type Running = { stop: AbortController; done: Promise<void> };

/** Files that this process embeds (`ctx.state.vectorStores`). */
export class VectorStoresState {
  readonly running = new Map<string, Running>();
  readonly permits = new Semaphore({ name: "files of vector stores", permits: 4, mostEach: 2 });
  /** Resolves when there may be a file to start. */
  bell = Promise.withResolvers<void>();
}

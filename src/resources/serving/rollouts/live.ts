declare module "../../../context.ts" {
  interface State {
    readonly rollouts: RolloutsState;
  }
}

/** Calls of one rollout that are not yet turns, by the hash of their request. */
export type OpenCalls = Map<string, Promise<void>>;

/** Calls of rollouts that this process answers (`ctx.state.rollouts`). */
export class RolloutsState {
  readonly #calls = new Map<string, OpenCalls>();

  of(id: string): OpenCalls {
    return this.#calls.get(id) ?? new Map();
  }

  /** Returns the function that ends the call. */
  begin(id: string, hash: string): () => void {
    const calls = this.of(id);
    this.#calls.set(id, calls);
    const { promise, resolve } = Promise.withResolvers<void>();
    const name = calls.has(hash) ? `${hash} ${calls.size}` : hash;
    calls.set(name, promise);
    return () => {
      resolve();
      calls.delete(name);
      if (calls.size === 0) this.#calls.delete(id);
    };
  }
}

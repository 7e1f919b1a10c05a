/** The worker's answer on its way to the client: as it comes, with an error in the envelope if the worker dies. */
import type { AppError } from "../../../lib/errors.ts";
import { sseError } from "../../../lib/sse.ts";

/** The client went away. */
export const LEFT = new Error("the client left");

const encoder = new TextEncoder();

export function chunksOf(body: ReadableStream<Uint8Array>): AsyncIterator<Uint8Array> {
  const reader = body.getReader();
  return {
    next: () => reader.read() as Promise<IteratorResult<Uint8Array>>,
    async return() {
      await reader.cancel();
      return { done: true, value: undefined };
    },
  };
}

type Hooks = {
  onChunk: () => void;
  /** Undefined: all of it came. */
  onEnd: (error: unknown) => void;
  /** What a client reads instead of the rest. */
  explain: (error: unknown) => AppError;
};

/** A stream that is read to its end, broken off by its client, or ended by an error event. */
export function relay(source: AsyncIterator<Uint8Array>, hooks: Hooks): ReadableStream<Uint8Array> {
  let left = false;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const next = await source.next();
        if (left) return;
        if (!next.done) {
          hooks.onChunk();
          return controller.enqueue(next.value);
        }
        hooks.onEnd(undefined);
      } catch (error) {
        if (left) return;
        hooks.onEnd(error);
        controller.enqueue(encoder.encode(sseError(hooks.explain(error))));
      }
      controller.close();
    },
    cancel() {
      left = true;
      hooks.onEnd(LEFT);
      source.return?.().catch(() => {}); // it was told to end; how it does so is its own affair
    },
  });
}

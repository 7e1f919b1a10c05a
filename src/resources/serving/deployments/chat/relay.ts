/** Relays a worker's answer to the client as it comes. If the worker dies, the stream ends with an error event. */

import type { AppError } from "../../../../lib/errors.ts";
import { ClientLeft } from "../../../../lib/net/client_left.ts";
import { sseError } from "../../../../lib/net/sse.ts";

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
  onChunk: (chunk: Uint8Array) => void;
  /** The client closed its connection. `onEnd` follows. */
  onLeave: () => void;
  /** Undefined: the whole answer was sent. */
  onEnd: (error: unknown) => void;
  /** The error that the client reads instead of the rest. */
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
          hooks.onChunk(next.value);
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
      hooks.onLeave();
      hooks.onEnd(new ClientLeft());
      source.return?.().catch(() => {}); // the source ends by itself; its error has no reader
    },
  });
}

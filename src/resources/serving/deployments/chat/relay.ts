/**
 * Relays a worker's answer to the client as it comes. If the worker dies, the stream ends with an error event. While the
 * worker is silent, comments keep proxies from cutting the connection.
 */
import { openaiEnvelope } from "../../../../http/answer/client_errors.ts";
import type { AppError } from "../../../../lib/errors.ts";
import { ClientLeft } from "../../../../lib/net/client_left.ts";
import { encodeSse, sseData } from "../../../../lib/net/sse.ts";
import type { Clock } from "../../../../platform/clock.ts";

const SILENCE_MS = 10_000;
const encoder = new TextEncoder();
const PING = encoder.encode(encodeSse({ comment: "waiting" }));

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
  clock: Clock;
  /** The client has waited for a while: a comment comes first. */
  isLate: boolean;
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
  const { clock } = hooks;
  const over = new AbortController();
  let left = false;
  let sentAt = clock.steady();
  const ping = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    for (;;) {
      await clock.sleep(Math.max(sentAt + SILENCE_MS - clock.steady(), 0), over.signal);
      if (over.signal.aborted) return;
      if (clock.steady() - sentAt < SILENCE_MS) continue;
      sentAt = clock.steady();
      if (controller.desiredSize) controller.enqueue(PING); // a reader that is behind has bytes to read
    }
  };
  return new ReadableStream<Uint8Array>({
    start(controller) {
      if (hooks.isLate) controller.enqueue(PING);
      void ping(controller);
    },
    async pull(controller) {
      try {
        const next = await source.next();
        if (left) return;
        if (!next.done) {
          sentAt = clock.steady();
          hooks.onChunk(next.value);
          return controller.enqueue(next.value);
        }
        hooks.onEnd(undefined);
      } catch (error) {
        if (left) return;
        hooks.onEnd(error);
        controller.enqueue(encoder.encode(sseData(JSON.stringify(openaiEnvelope(hooks.explain(error))))));
      }
      over.abort();
      controller.close();
    },
    cancel() {
      left = true;
      over.abort();
      hooks.onLeave();
      hooks.onEnd(new ClientLeft());
      source.return?.().catch(() => {}); // the source ends by itself; its error has no reader
    },
  });
}

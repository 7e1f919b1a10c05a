/**
 * Server-sent events, flushed at once. The response begins with the first event, so that an earlier error has its own
 * status. A later error is an event in the error envelope, without [DONE].
 */
import { ClientLeft } from "../../lib/net/client_left.ts";
import { SSE_HEADERS, sseError } from "../../lib/net/sse.ts";
import type { Exchange } from "./request.ts";

const MAX_UNREAD = 16 * 1024 * 1024; // in characters: a client that is this far behind does not read

type Controller = { write: (text: string) => unknown; flush: () => unknown };

/** Buffers what the client has not read, within bounds. */
class Sink {
  #unread = 0;
  #full: Promise<unknown> | undefined; // pending until the socket accepts more

  constructor(private readonly controller: Controller) {}

  write(events: string) {
    if (this.#unread > MAX_UNREAD) throw new ClientLeft("The client does not read its answer");
    const taken = this.controller.write(events);
    this.controller.flush();
    if (!(taken instanceof Promise)) return;
    this.#unread += events.length;
    if (this.#full === taken) return;
    this.#full = taken;
    const drained = () => {
      if (this.#full === taken) this.#unread = 0;
    };
    taken.then(drained, drained);
  }
}

/** `produce` writes whole events and returns after the last one. */
export async function streamed(
  exchange: Exchange,
  produce: (write: (events: string) => void) => Promise<void>,
): Promise<Response> {
  let early = "";
  let sink: Sink | undefined;
  const begun = Promise.withResolvers<void>();
  const over = produce((events) => {
    if (sink) sink.write(events);
    else {
      early += events;
      begun.resolve();
    }
  });
  await Promise.race([begun.promise, over]);
  const source: Bun.DirectUnderlyingSource<Uint8Array> = {
    type: "direct",
    async pull(controller) {
      sink = new Sink(controller);
      sink.write(early);
      try {
        await over;
      } catch (error) {
        controller.write(sseError(exchange.explain(error)));
      }
      controller.close();
    },
  };
  const body = new ReadableStream(source as unknown as UnderlyingSource); // the web types lack this kind of stream
  exchange.streamed(over);
  return new Response(body, { headers: SSE_HEADERS });
}

/**
 * Server-sent events, flushed as they come. The answer begins with the first event, so that what goes wrong before it
 * still has its own status; what goes wrong later is an event in the envelope, and then no [DONE].
 */
import type { AppError } from "../../lib/errors.ts";
import type { Exchange } from "./request.ts";

export const DONE = "data: [DONE]\n\n";
const HEADERS = { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" };

export const envelopeOf = ({ type, code, message, param }: AppError) => ({ error: { type, code, message, param } });

export const eventOf = (payload: unknown) => `data: ${JSON.stringify(payload)}\n\n`;

/** `produce` writes whole events and ends after the last one. */
export async function streamed(
  exchange: Exchange,
  produce: (write: (events: string) => void) => Promise<void>,
): Promise<Response> {
  let early = "";
  let sink: { write: (text: string) => unknown; flush: () => unknown } | undefined;
  const begun = Promise.withResolvers<void>();
  const over = produce((events) => {
    if (sink) {
      sink.write(events);
      sink.flush();
    } else {
      early += events;
      begun.resolve();
    }
  });
  await Promise.race([begun.promise, over]);
  const source: Bun.DirectUnderlyingSource<Uint8Array> = {
    type: "direct",
    async pull(controller) {
      controller.write(early);
      controller.flush();
      sink = controller;
      try {
        await over;
      } catch (error) {
        controller.write(eventOf(envelopeOf(exchange.explain(error))));
      }
      controller.close();
    },
  };
  const body = new ReadableStream(source as unknown as UnderlyingSource); // the types of the web do not know the kind
  exchange.streamed(over);
  return new Response(body, { headers: HEADERS });
}

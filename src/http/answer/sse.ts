import type { Ctx, Principal } from "../../context.ts";
import { encodeSse, SSE_HEADERS, type SseMessage } from "../../lib/net/sse.ts";
import { isStillAdmitted } from "../auth.ts";
import { openStream } from "../limits/streams.ts";
import { requestIdOf } from "../request_state.ts";

const HEARTBEAT_MS = 15_000;
const encoder = new TextEncoder();

type Source = (signal: AbortSignal) => AsyncIterable<SseMessage>;
type Options = {
  retryMs?: number;
  heartbeatMs?: number;
  /** Called when the stream is over, at least once. */
  onEnd?: () => void;
};

/**
 * A stream of server-sent events. The signal of `source` aborts when the client leaves, its key is refused or the server
 * closes. A comment every 15 s keeps proxies from cutting an idle stream. A slow reader slows the source down.
 */
export function sse(
  ctx: Pick<Ctx, "authenticate" | "authenticateSession" | "closing" | "log">,
  request: Request,
  source: Source,
  { retryMs = 3000, heartbeatMs = HEARTBEAT_MS, onEnd = () => {} }: Options = {},
): Response {
  if (request.method === "HEAD") {
    onEnd();
    return new Response(null, { headers: SSE_HEADERS }); // without a reader the body would never end
  }
  const ended = new AbortController();
  const iterator = source(AbortSignal.any([ended.signal, ctx.closing]))[Symbol.asyncIterator]();
  let heartbeat: Timer | undefined;
  let cancelled = false; // by its reader, so the stream is closed already
  const leave = () => {
    onEnd();
    clearInterval(heartbeat);
    ended.abort();
    iterator.return?.().catch(() => {}); // the signal ends it; its own failure changes nothing
  };
  /** Errors end here: neither the timer nor the stream below has a caller that would catch them. */
  const guarded = async (controller: ReadableStreamDefaultController, step: () => void | Promise<void>) => {
    try {
      await step();
    } catch (error) {
      leave();
      ctx.log.error("an event stream broke", { request_id: requestIdOf(request), error });
      controller.error(error);
    }
  };
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(encoder.encode(`retry: ${retryMs}\n\n`));
      const beat = () => {
        if (!isStillAdmitted(ctx, request)) return leave(); // the source ends, and with it the stream
        if (controller.desiredSize) controller.enqueue(encoder.encode(encodeSse({ comment: "heartbeat" })));
      };
      heartbeat = setInterval(() => void guarded(controller, beat), heartbeatMs);
    },
    pull: (controller) =>
      guarded(controller, async () => {
        const next = await iterator.next();
        if (!next.done && isStillAdmitted(ctx, request))
          return controller.enqueue(encoder.encode(encodeSse(next.value)));
        leave();
        if (!cancelled) controller.close();
      }),
    cancel() {
      cancelled = true;
      leave();
    },
  });
  return new Response(stream, { headers: SSE_HEADERS });
}

type Reader = { request: Request; principal: Principal };

/** A stream that counts towards the limits of its key and workspace (see limits/streams.ts). */
export const streamFor = (ctx: Ctx, { request, principal }: Reader, source: Source): Response =>
  sse(ctx, request, source, { onEnd: openStream(ctx, principal) });

import type { Ctx, Principal } from "../../context.ts";
import { isStillAdmitted } from "../auth.ts";
import { openStream } from "../limits/streams.ts";
import { requestIdOf } from "../request_state.ts";

/** One with an id alone says where the reader is: it is told of nothing, and comes back there. */
export type SseMessage = { id?: string; event?: string; data: unknown } | { id: string } | { comment: string };

const HEARTBEAT_MS = 15_000;
const encoder = new TextEncoder();

/** One message as it stands on the wire. */
export function encodeSse(message: SseMessage): string {
  if ("comment" in message) return `: ${message.comment.replaceAll(/[\r\n]+/g, " ")}\n\n`;
  const lines: string[] = [];
  if (message.id !== undefined) lines.push(`id: ${message.id}`);
  if ("data" in message) {
    if (message.event !== undefined) lines.push(`event: ${message.event}`);
    lines.push(`data: ${JSON.stringify(message.data)}`); // one line: JSON escapes newlines
  }
  return `${lines.join("\n")}\n\n`;
}

const HEADERS = { "content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no" };

type Source = (signal: AbortSignal) => AsyncIterable<SseMessage>;
type Options = {
  retryMs?: number;
  heartbeatMs?: number;
  /** Called when the stream is over, at least once. */
  onEnd?: () => void;
};

/**
 * A server-sent event stream. `source` gets a signal that aborts when the client leaves, its key stops being good
 * or the server closes; a comment every 15 s keeps proxies from cutting an idle stream. Pull-driven: a slow reader
 * holds the source.
 */
export function sse(
  ctx: Pick<Ctx, "authenticate" | "closing" | "log">,
  request: Request,
  source: Source,
  { retryMs = 3000, heartbeatMs = HEARTBEAT_MS, onEnd = () => {} }: Options = {},
): Response {
  if (request.method === "HEAD") {
    onEnd();
    return new Response(null, { headers: HEADERS }); // a body that nobody reads would never end
  }
  const gone = new AbortController();
  const iterator = source(AbortSignal.any([gone.signal, ctx.closing]))[Symbol.asyncIterator]();
  let heartbeat: Timer | undefined;
  let cancelled = false; // then the stream is closed already, by its reader
  const leave = () => {
    onEnd();
    clearInterval(heartbeat);
    gone.abort();
    iterator.return?.().catch(() => {}); // it was told to end; how it does so is its own affair
  };
  /** The boundary: above the timer and the stream below there is nobody to catch. */
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
  return new Response(stream, { headers: HEADERS });
}

type Reader = { request: Request; principal: Principal };

/** A stream that counts as one of its key's and workspace's (see limits/streams.ts). */
export const streamFor = (ctx: Ctx, { request, principal }: Reader, source: Source): Response =>
  sse(ctx, request, source, { onEnd: openStream(ctx, principal) });

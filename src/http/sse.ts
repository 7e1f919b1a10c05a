export type SseMessage = { id?: string; event?: string; data: unknown } | { comment: string };

const HEARTBEAT_MS = 15_000;
const encoder = new TextEncoder();

/** One message as it stands on the wire. */
export function encodeSse(message: SseMessage): string {
  if ("comment" in message) return `: ${message.comment.replaceAll(/[\r\n]+/g, " ")}\n\n`;
  const lines: string[] = [];
  if (message.id !== undefined) lines.push(`id: ${message.id}`);
  if (message.event !== undefined) lines.push(`event: ${message.event}`);
  lines.push(`data: ${JSON.stringify(message.data)}`); // one line: JSON escapes newlines
  return `${lines.join("\n")}\n\n`;
}

/**
 * A server-sent event stream. `source` gets a signal that aborts when the client leaves or the server closes;
 * a comment every 15 s keeps proxies from cutting an idle stream. Pull-driven: a slow reader holds the source.
 */
export function sse(
  source: (signal: AbortSignal) => AsyncIterable<SseMessage>,
  options: { closing: AbortSignal; retryMs?: number },
): Response {
  const gone = new AbortController();
  const signal = AbortSignal.any([gone.signal, options.closing]);
  const iterator = source(signal)[Symbol.asyncIterator]();
  let heartbeat: Timer | undefined;
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(encoder.encode(`retry: ${options.retryMs ?? 3000}\n\n`));
      heartbeat = setInterval(
        () => controller.enqueue(encoder.encode(encodeSse({ comment: "heartbeat" }))),
        HEARTBEAT_MS,
      );
    },
    async pull(controller) {
      const next = await iterator.next();
      if (!next.done) return controller.enqueue(encoder.encode(encodeSse(next.value)));
      clearInterval(heartbeat);
      controller.close();
    },
    cancel() {
      clearInterval(heartbeat);
      gone.abort();
      void iterator.return?.();
    },
  });
  return new Response(stream, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no" },
  });
}

import type { Ctx } from "../../../context.ts";
import { keepOpen } from "../../../http/connection.ts";
import { openStream } from "../../../http/limits/streams.ts";
import { AppError } from "../../../lib/errors.ts";
import type { Caller } from "../call_model.ts";

export const NDJSON_HEADERS = { "content-type": "application/x-ndjson", "cache-control": "no-store" };
const encoder = new TextEncoder();
export const jsonLine = (object: object) => `${JSON.stringify(object)}\n`;

/** The objects as they come, or the last one alone. The first error is a status; a later one ends the stream. */
export async function progressResponse(
  ctx: Ctx,
  { request, principal }: Caller,
  steps: AsyncGenerator<object>,
  stream: boolean,
): Promise<Response> {
  keepOpen(ctx, request);
  const first = await steps.next();
  if (!stream) {
    let last = first.value as object;
    for await (const step of steps) last = step;
    return Response.json(last);
  }
  const close = openStream(ctx, principal);
  let held: IteratorResult<object> | undefined = first;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const next: IteratorResult<object> = held ?? (await steps.next());
        held = undefined;
        if (!next.done) return controller.enqueue(encoder.encode(jsonLine(next.value)));
      } catch (error) {
        if (!(error instanceof AppError)) ctx.log.error("a stream of progress failed", { error });
        const message = error instanceof AppError ? error.message : "Unexpected server error";
        controller.enqueue(encoder.encode(jsonLine({ error: message })));
      }
      close();
      controller.close();
    },
    async cancel() {
      close();
      await steps.return(undefined);
    },
  });
  return new Response(body, { headers: NDJSON_HEADERS });
}

import type { Ctx } from "../../context.ts";
import { keepOpen } from "../../http/connection.ts";
import { flush } from "./flush.ts";
import { type Position, wholeRows } from "./query.ts";
import { presentTrace, type TraceFilter } from "./schema.ts";
import { mustNameScore, scoresOf } from "./service.ts";

const BATCH = 200;
const HEADERS = {
  "content-type": "application/x-ndjson; charset=utf-8",
  "content-disposition": 'attachment; filename="traces.jsonl"',
};

/** Streams the traces as JSON lines, oldest first, in constant memory. A slow client slows the stream down. */
export function exported(ctx: Ctx, request: Request, workspaceId: string, filter: TraceFilter): Response {
  mustNameScore(filter);
  flush(ctx);
  keepOpen(ctx, request);
  const encoder = new TextEncoder();
  let after: Position | undefined;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await new Promise(setImmediate); // requests get their turn between two batches
      if (ctx.closing.aborted) return controller.error(ctx.closing.reason);
      const rows = wholeRows(ctx.db, workspaceId, filter, { order: "oldest", after, limit: BATCH });
      const scores = Map.groupBy(
        scoresOf(
          ctx,
          rows.map(({ id }) => id),
        ),
        ({ traceId }) => traceId,
      );
      const lines = rows.map((row) => `${JSON.stringify(presentTrace(row, scores.get(row.id) ?? []))}\n`);
      if (lines.length > 0) controller.enqueue(encoder.encode(lines.join("")));
      after = rows.at(-1);
      if (rows.length < BATCH) controller.close();
    },
  });
  return new Response(request.method === "HEAD" ? null : body, { headers: HEADERS });
}

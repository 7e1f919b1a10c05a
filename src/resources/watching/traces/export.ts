import type { Ctx } from "../../../context.ts";
import { keepOpen } from "../../../http/connection.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { settled } from "./flush.ts";
import type { TraceFilter } from "./schema.ts";
import { type Position, rowsAt } from "./search/positions.ts";
import { find, mustNameScore, withScores } from "./service.ts";

const BATCH = 500;
const ROWS = 10; // in memory at a time: one may have megabytes of content
const HEADERS = {
  "content-type": "application/x-ndjson; charset=utf-8",
  "content-disposition": 'attachment; filename="traces.jsonl"',
};

/**
 * Streams the traces as JSON lines, oldest first, in constant memory. A slow client slows the stream down. Those of the
 * buffer are stored before the answer begins, so it can still be an error.
 */
export async function exported(
  ctx: Ctx,
  request: Request,
  workspaceId: string,
  filter: TraceFilter,
): Promise<Response> {
  mustNameScore(filter);
  await settled(ctx, workspaceId, () => {});
  keepOpen(ctx, request);
  const encoder = new TextEncoder();
  let batch: Position[] = [];
  let after: Position | undefined;
  let isLast = false;
  const turn = takingTurns();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await turn();
      if (ctx.closing.aborted) return controller.error(ctx.closing.reason);
      if (batch.length === 0 && !isLast) {
        const slice = { order: "oldest", after, limit: BATCH } as const;
        const { page, next } = await settled(ctx, workspaceId, () => find(ctx, workspaceId, filter, slice));
        [batch, after, isLast] = [page, next, next === undefined];
      }
      const shown = await settled(ctx, workspaceId, () => withScores(ctx, rowsAt(ctx.db, batch.splice(0, ROWS))));
      const lines = shown.map((trace) => `${JSON.stringify(trace)}\n`);
      controller.enqueue(encoder.encode(lines.join(""))); // an empty chunk too: without one there is no further pull
      if (batch.length === 0 && isLast) controller.close();
    },
  });
  return new Response(request.method === "HEAD" ? null : body, { headers: HEADERS });
}

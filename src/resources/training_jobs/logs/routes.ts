import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { fileResponse } from "../../../http/answer/file_response.ts";
import { streamFor } from "../../../http/answer/sse.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { AppError } from "../../../lib/errors.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import * as jobs from "../service.ts";
import { nextChange } from "../state/change_signals.ts";
import type { JobRow } from "../table.ts";
import { follow } from "./reading.ts";

const count = z.string().regex(/^\d{1,15}$/, "must be a whole number");

const LogsQuery = z.object({
  tail: count.transform(Number).optional().describe("Begin with the last so many lines (default: with the first)"),
});

/** What a client that comes back has seen; what nobody gave out counts as nothing seen. */
function seenBy(request: Request): number | undefined {
  const id = request.headers.get("last-event-id");
  return id !== null && count.safeParse(id).success ? Number(id) : undefined;
}

const STREAM =
  "Events: `log` {seq, time, stream, line} with its seq as id, `status` {status, step, total_steps} at the beginning and at each change, `end` when the job has ended and everything was sent. Reconnect with Last-Event-ID.";

export const logRoutes = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/training_jobs", tags: ["Training jobs"] })
    .use(authed)
    .get(
      "/:id/logs",
      ({ request, principal, params, query }) => {
        const { id } = jobs.mustGet(ctx, principal.workspaceId, params.id);
        keepOpen(ctx, request);
        return streamFor(ctx, { request, principal }, (signal) =>
          follow(ctx, id, { after: seenBy(request), tail: query.tail }, signal),
        );
      },
      {
        ...asks(LogsQuery),
        detail: describe("Follow a job's log", { 200: "text/event-stream" }, { description: STREAM }),
      },
    )
    .get(
      "/:id/logs/full",
      async ({ request, principal, params }) => full(ctx, request, jobs.mustGet(ctx, principal.workspaceId, params.id)),
      {
        detail: describe("Fetch the whole log of a job that has ended; takes Range", {
          200: "text/plain",
          206: "text/plain",
        }),
      },
    );
};

const PATIENCE_MS = 10_000;

async function full(ctx: Ctx, request: Request, job: JobRow): Promise<Response> {
  if (!jobs.isFinished(job))
    throw new AppError(
      "unsupported_state",
      `Training job ${job.id} is ${job.status}: its whole log is there when it has ended. Follow it at /logs`,
      { param: "id" },
    );
  const key = await keyOf(ctx, job);
  const head = await ctx.storage.head(key);
  if (!head) throw new LostKeyError(key);
  const file = { name: `${job.id}.log`, contentType: "text/plain; charset=utf-8", updatedAt: head.updatedAt };
  const stored = { ...file, sizeBytes: head.bytes, sha256: head.sha256 };
  const answer = await fileResponse(request, { ...stored, open: (range) => ctx.storage.get(key, range) });
  if (!answer) throw new LostKeyError(key);
  return answer;
}

/** It has just ended: the text is on its way into the storage. */
async function keyOf(ctx: Ctx, { id, logKey }: JobRow): Promise<string> {
  if (logKey !== null) return logKey;
  ctx.wake("training_jobs.reconcile");
  const over = AbortSignal.any([AbortSignal.timeout(PATIENCE_MS), ctx.closing]);
  while (!over.aborted) {
    const key = jobs.current(ctx, id)?.logKey;
    if (key) return key;
    await nextChange(ctx, id, over);
  }
  throw new AppError("storage_unavailable", "The log is not in the storage yet: try again", { retryAfterSeconds: 5 });
}

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
import { SECOND_MS } from "../../../lib/units.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import { currentJob, isFinished, mustGet } from "../state/rows.ts";
import type { JobRow } from "../table.ts";
import { follow } from "./reading.ts";

const count = z.string().regex(/^\d{1,15}$/, "must be a whole number");

const LogsQuery = z.object({
  tail: count.transform(Number).optional().describe("Start with the last N lines. Default: start with the first line"),
});

/** The last line that a reconnecting client has. An id that Verk never sent is ignored. */
function lastEventId(request: Request): number | undefined {
  const id = request.headers.get("last-event-id");
  return id !== null && count.safeParse(id).success ? Number(id) : undefined;
}

const STREAM =
  "Events: `log` {seq, time, stream, line} with seq as its id; `status` {status, step, total_steps} at the start and at each change; `end` when the job has ended and every line was sent. Reconnect with Last-Event-ID.";

export const logRoutes = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/training_jobs", tags: ["Training jobs"] })
    .use(authed)
    .get(
      "/:id/logs",
      ({ request, principal, params, query }) => {
        const { id } = mustGet(ctx, principal.workspaceId, params.id);
        keepOpen(ctx, request);
        return streamFor(ctx, { request, principal }, (signal) =>
          follow(ctx, id, { after: lastEventId(request), tail: query.tail }, signal),
        );
      },
      {
        ...asks(LogsQuery),
        detail: describe("Follow a job's log", { 200: "text/event-stream" }, { description: STREAM }),
      },
    )
    .get(
      "/:id/logs/full",
      async ({ request, principal, params }) => full(ctx, request, mustGet(ctx, principal.workspaceId, params.id)),
      {
        detail: describe("Get the whole log of a finished job; supports Range", {
          200: "text/plain",
          206: "text/plain",
        }),
      },
    );
};

const WAIT_MS = 10 * SECOND_MS;

async function full(ctx: Ctx, request: Request, job: JobRow): Promise<Response> {
  if (!isFinished(job))
    throw new AppError(
      "unsupported_state",
      `Training job ${job.id} is ${job.status}; the whole log exists when the job has ended. Follow the log at GET /v1/training_jobs/{id}/logs`,
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

/** Waits if the job has just ended and its text is still on its way into the storage. */
async function keyOf(ctx: Ctx, { id, logKey }: JobRow): Promise<string> {
  if (logKey !== null) return logKey;
  ctx.wake("training_jobs.reconcile");
  const over = AbortSignal.any([AbortSignal.timeout(WAIT_MS), ctx.closing]);
  while (!over.aborted) {
    const key = currentJob(ctx.db, id)?.logKey;
    if (key) return key;
    await ctx.state.trainingJobs.changes.next(ctx.clock, id, over);
  }
  throw new AppError("storage_unavailable", "The log is still being stored: try again", { retryAfterSeconds: 5 });
}

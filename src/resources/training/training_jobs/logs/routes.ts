import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../../context.ts";
import { fileResponse } from "../../../../http/answer/file_response.ts";
import { streamFor } from "../../../../http/answer/sse.ts";
import { area } from "../../../../http/auth.ts";
import { keepOpen } from "../../../../http/connection.ts";
import { describe } from "../../../../http/openapi.ts";
import { asks } from "../../../../http/query.ts";
import { AppError } from "../../../../lib/errors.ts";
import { SECOND_MS } from "../../../../lib/units.ts";
import { LostKeyError } from "../../../../platform/storage/storage.ts";
import { byName, currentJob, isFinished, mustGet } from "../state/rows.ts";
import type { JobRow } from "../table.ts";
import { follow, STREAMS, type Stream } from "./reading.ts";

const count = z.string().regex(/^\d{1,15}$/, "must be a whole number");

const TAIL = 100;
const stream = z
  .enum(STREAMS)
  .default("stdout")
  .describe("stdout is what the training or the command prints, stderr its warnings and errors");

const LogsQuery = z.object({
  tail: z
    .union([z.literal("all"), count.transform(Number)], "must be a whole number, or all")
    .default(TAIL)
    .describe("Begin with the last N lines of the stream. 0: only new lines. all: from the first line on"),
  stream,
});
const FullQuery = z.object({ stream: stream.describe("all: standard output, then standard error") });

/** The last line that a reconnecting client has. An id that Verk never sent is ignored. */
function lastEventId(request: Request): number | undefined {
  const id = request.headers.get("last-event-id");
  return id !== null && count.safeParse(id).success ? Number(id) : undefined;
}

const STREAM =
  "Begins at the tail: the last 100 lines of standard output. Events: `log` {seq, time, stream, line} with seq as its id, where `continues: true` says that the line goes on in the next event of its stream, because it is longer than 16 KiB; `status` {status, step, total_steps} at the start and at each change; `end` when the job has ended and every line was sent. Reconnect with Last-Event-ID.";

const CAPS = "Lines are whole, however long they are. The log ends after 256 MiB, and its last line says so.";

export const logRoutes = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/training_jobs", tags: ["Training jobs"] })
    .use(authed)
    .use(byName(ctx))
    .get(
      "/:id/logs",
      ({ request, principal, params, query }) => {
        const { id } = mustGet(ctx, principal.workspaceId, params.id);
        keepOpen(ctx, request);
        return streamFor(ctx, { request, principal }, (signal) =>
          follow(ctx, id, { ...query, after: lastEventId(request) }, signal),
        );
      },
      {
        ...asks(LogsQuery),
        detail: describe("Follow a job's log", { 200: "text/event-stream" }, { description: STREAM }),
      },
    )
    .get(
      "/:id/logs/full",
      async ({ request, principal, params, query }) =>
        full(ctx, request, mustGet(ctx, principal.workspaceId, params.id), query.stream),
      {
        ...asks(FullQuery),
        detail: describe(
          "Get the whole log of a finished job; supports Range",
          { 200: "text/plain", 206: "text/plain" },
          { description: CAPS },
        ),
      },
    );
};

const WAIT_MS = 10 * SECOND_MS;

async function full(ctx: Ctx, request: Request, job: JobRow, stream: Stream): Promise<Response> {
  if (!isFinished(job))
    throw new AppError(
      "unsupported_state",
      `Training job ${job.id} is ${job.status}; the whole log exists when the job has ended. Follow the log at GET /v1/training_jobs/{id}/logs`,
      { param: "id" },
    );
  if (job.detailsRemovedAt !== null)
    throw new AppError(
      "resource_not_found",
      `The log of training job ${job.id} was removed, because the job ended long ago (training.detail_retention_days)`,
      { param: "id" },
    );
  const stored = await storedLog(ctx, job);
  const file = { name: `${job.id}.log`, contentType: "text/plain; charset=utf-8" };
  const { logKey: key } = stored;
  if (key === null) return mustBe(await fileResponse(request, { ...file, ...EMPTY, updatedAt: job.updatedAt }), "");
  const head = await ctx.storage.head(key);
  if (!head) throw new LostKeyError(key);
  const { offset, length } = partOf(stored, stream, head.bytes);
  const answer = await fileResponse(request, {
    ...file,
    sizeBytes: length,
    sha256: length === head.bytes ? head.sha256 : `${head.sha256}-${stream}`,
    updatedAt: head.updatedAt,
    open: async (range) => {
      const opened = await ctx.storage.get(key, { ...range, offset: offset + range.offset });
      if (!opened || offset === 0) return opened;
      const { file: _, ...part } = opened; // the file has the whole object
      return part;
    },
  });
  return mustBe(answer, key);
}

function mustBe(answer: Response | undefined, key: string): Response {
  if (!answer) throw new LostKeyError(key);
  return answer;
}

const sha256 = new Bun.CryptoHasher("sha256").digest("hex"); // of nothing
const EMPTY = {
  sizeBytes: 0,
  sha256,
  open: async () => ({ stream: new Blob([]).stream(), bytes: 0, totalBytes: 0, sha256 }),
};

/** The part of the stored log with a stream. A log of an older version has both streams mixed: it is shown whole. */
function partOf({ logStdoutBytes }: JobRow, stream: Stream, bytes: number): { offset: number; length: number } {
  if (stream === "all" || logStdoutBytes === null) return { offset: 0, length: bytes };
  if (stream === "stdout") return { offset: 0, length: logStdoutBytes };
  return { offset: logStdoutBytes, length: bytes - logStdoutBytes };
}

/** Waits if the job has just ended and its text is still on its way into the storage. */
async function storedLog(ctx: Ctx, job: JobRow): Promise<JobRow> {
  const isStored = ({ logKey, logBytes }: JobRow) => logKey !== null || logBytes !== null;
  if (isStored(job)) return job;
  ctx.wake("training_jobs.reconcile");
  const over = AbortSignal.any([AbortSignal.timeout(WAIT_MS), ctx.closing]);
  while (!over.aborted) {
    const now = currentJob(ctx.db, job.id);
    if (now && isStored(now)) return now;
    await ctx.state.trainingJobs.changes.next(ctx.clock, job.id, over);
  }
  throw new AppError("storage_unavailable", "The log is still being stored: try again", { retryAfterSeconds: 5 });
}

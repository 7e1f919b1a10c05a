import { asc, eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { isoTime } from "../../../../lib/time.ts";
import { type JobRow, trainingSystem } from "../table.ts";
import type { JobSystem } from "./schema.ts";

/** The rows are few: they are thinned as they are written. */
export const read = (ctx: Ctx, job: JobRow): JobSystem => ({
  object: "training_job.system",
  job_id: job.id,
  data: ctx.db
    .select({ time: trainingSystem.time, values: trainingSystem.values })
    .from(trainingSystem)
    .where(eq(trainingSystem.jobId, job.id))
    .orderBy(asc(trainingSystem.time))
    .all()
    .map(({ time, values }) => ({ time: isoTime(time), values })),
});

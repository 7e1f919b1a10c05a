/** A job's metrics over its steps, thinned in a way that keeps spikes. */
import { and, asc, eq, gt, lte } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { isoTime } from "../../../lib/time.ts";
import { type MetricPoint, thin } from "../../../lib/training/metrics.ts";
import { type JobRow, trainingMetrics as table } from "../table.ts";
import type { JobMetrics, MetricsQuery } from "./schema.ts";

const BATCH = 1_000; // rows read at once; other requests run in between

type Points = Omit<JobMetrics, "object" | "job_id">;

export async function read(ctx: Ctx, job: JobRow, query: Omit<MetricsQuery, "format">): Promise<Points> {
  const keys = query.keys === undefined ? undefined : new Set(query.keys.split(",").map((key) => key.trim()));
  const points: MetricPoint[] = [];
  const present = new Set<string>();
  for (let after = (query.from_step ?? 0) - 1; ; ) {
    const rows = readBatch(ctx, job.id, after, query.to_step);
    for (const { step, epoch, time, values } of rows) {
      const kept = keys ? Object.entries(values).filter(([key]) => keys.has(key)) : Object.entries(values);
      for (const [key] of kept) present.add(key);
      points.push({ step, epoch, time: isoTime(time), values: Object.fromEntries(kept) });
    }
    const last = rows.at(-1);
    if (!last || rows.length < BATCH) break;
    after = last.step;
    await new Promise(setImmediate);
  }
  const { points: data, sampled } = thin(points, query.max_points);
  return { keys: [...present].sort(), total_points: points.length, sampled, data };
}

function readBatch(ctx: Ctx, jobId: string, after: number, upTo: number | undefined) {
  return ctx.db
    .select()
    .from(table)
    .where(and(eq(table.jobId, jobId), gt(table.step, after), upTo === undefined ? undefined : lte(table.step, upTo)))
    .orderBy(asc(table.step))
    .limit(BATCH)
    .all();
}

export async function show(ctx: Ctx, job: JobRow, query: MetricsQuery): Promise<JobMetrics> {
  return { object: "training_job.metrics", job_id: job.id, ...(await read(ctx, job, query)) };
}

/** One column for each key; a missing value is an empty cell. */
export async function csv(ctx: Ctx, job: JobRow, query: MetricsQuery): Promise<Response> {
  const { keys, data } = await read(ctx, job, query);
  const lines = data.map(({ step, epoch, time, values }) => [
    step,
    epoch,
    time,
    ...keys.map((key) => (Object.hasOwn(values, key) ? values[key] : "")),
  ]);
  const text = [["step", "epoch", "time", ...keys], ...lines].map((line) => `${line.map(cell).join(",")}\r\n`).join("");
  return new Response(text, {
    headers: {
      "content-type": "text/csv; charset=utf-8",
      "content-disposition": `attachment; filename="${job.id}-metrics.csv"`,
    },
  });
}

const cell = (value: unknown) => {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

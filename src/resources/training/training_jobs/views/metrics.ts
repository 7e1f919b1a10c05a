/** A job's metrics over its steps, thinned in a way that keeps spikes. Points are read in pages and never held all. */
import { and, asc, eq, gt, lte } from "drizzle-orm";
import type { Ctx, Principal } from "../../../../context.ts";
import { longRead } from "../../../../http/limits/long_reads.ts";
import { isoTime } from "../../../../lib/time.ts";
import { createThinner, groupOf, type MetricPoint, type Range } from "../../../../lib/training/metrics.ts";
import { type Turn, takingTurns } from "../../../../lib/turns.ts";
import { type JobRow, trainingMetrics as table } from "../table.ts";
import type { JobMetrics, MetricsQuery } from "./schema.ts";

const PAGE = 100; // rows; one may have hundreds of values
const MOST_KEYS = 1_000; // in an answer
const MOST_VALUES = 200_000; // that are held. Of a thinned answer with more keys, each has fewer points

type Query = Omit<MetricsQuery, "format">;
type Points = Iterable<MetricPoint> | AsyncIterable<MetricPoint>;
type Series = Omit<JobMetrics, "object" | "job_id" | "data"> & { data: Points };

/** `data` is a list if the points are few or thinned. Else they are read from the database as they are used. */
export async function read(ctx: Ctx, job: JobRow, query: Query): Promise<Series> {
  const turn = takingTurns();
  const { groups, ranges, total, last, points } = await survey(ctx, job, query, turn);
  const summary = { keys: [...ranges.keys()].sort(), total_points: total };
  const upTo = { ...query, to_step: last }; // points that come meanwhile are not counted
  const all = points ?? pointsOf(ctx, job, upTo, turn);
  if (total <= query.max_points) return { ...summary, sampled: false, data: all };
  const most = Math.min(query.max_points, Math.max(4, Math.floor(MOST_VALUES / Math.max(1, ranges.size))));
  const thinner = createThinner({ groups, ranges }, most);
  for await (const point of all) thinner.add(point);
  return { ...summary, sampled: true, data: thinner.end() };
}

type Survey = {
  groups: Map<string, number>;
  ranges: Map<string, Range>;
  total: number;
  last: number;
  points: MetricPoint[] | undefined;
};

/** Counts the points of each group, and finds the range of each key. `points`: all of them, if they are few. */
async function survey(ctx: Ctx, job: JobRow, query: Query, turn: Turn): Promise<Survey> {
  const groups = new Map<string, number>();
  const ranges = new Map<string, Range>();
  let points: MetricPoint[] | undefined = [];
  let [total, last, values] = [0, 0, 0];
  for await (const point of pointsOf(ctx, job, query, turn)) {
    total++;
    last = point.step;
    const group = groupOf(point, groups);
    groups.set(group, (groups.get(group) ?? 0) + 1);
    for (const key in point.values) {
      const value = point.values[key] as number;
      const range = ranges.get(key);
      if (range) {
        range.least = Math.min(range.least, value);
        range.greatest = Math.max(range.greatest, value);
      } else if (ranges.size < MOST_KEYS) ranges.set(key, { least: value, greatest: value });
      values++;
    }
    if (values > MOST_VALUES) points = undefined;
    points?.push(point);
  }
  return { groups, ranges, total, last, points };
}

async function* pointsOf(ctx: Ctx, job: JobRow, query: Query, turn: Turn): AsyncGenerator<MetricPoint> {
  const keys = query.keys === undefined ? undefined : new Set(query.keys.split(",").map((key) => key.trim()));
  for (let after = (query.from_step ?? 0) - 1; ; ) {
    await turn();
    const rows = pageAfter(ctx, job.id, after, query.to_step);
    for (const { step, epoch, time, values } of rows)
      yield { step, epoch, time: isoTime(time), values: keys ? chosen(values, keys) : values };
    const last = rows.at(-1);
    if (!last || rows.length < PAGE) return;
    after = last.step;
  }
}

const chosen = (values: Record<string, number>, keys: ReadonlySet<string>) =>
  Object.fromEntries(Object.entries(values).filter(([key]) => keys.has(key)));

function pageAfter(ctx: Ctx, jobId: string, after: number, upTo: number | undefined) {
  return ctx.db
    .select()
    .from(table)
    .where(and(eq(table.jobId, jobId), gt(table.step, after), upTo === undefined ? undefined : lte(table.step, upTo)))
    .orderBy(asc(table.step))
    .limit(PAGE)
    .all();
}

/** Streams the metrics as JSON, or as CSV with one column for each key, where a missing value is an empty cell. */
export async function answer(ctx: Ctx, caller: Principal, job: JobRow, query: MetricsQuery): Promise<Response> {
  const series = await longRead(ctx, caller, () => read(ctx, job, query));
  const isCsv = query.format === "csv";
  return new Response(streamOf(isCsv ? csvOf(series) : jsonOf(job, series)), {
    headers: isCsv
      ? {
          "content-type": "text/csv; charset=utf-8",
          "content-disposition": `attachment; filename="${job.id}-metrics.csv"`,
        }
      : { "content-type": "application/json" },
  });
}

async function* jsonOf(job: JobRow, { data, ...summary }: Series): AsyncGenerator<string> {
  const head = JSON.stringify({ object: "training_job.metrics", job_id: job.id, ...summary });
  yield `${head.slice(0, -1)},"data":[`;
  let separator = "";
  for await (const point of data) {
    yield `${separator}${JSON.stringify(point)}`;
    separator = ",";
  }
  yield "]}";
}

async function* csvOf({ keys, data }: Series): AsyncGenerator<string> {
  const line = (cells: unknown[]) => `${cells.map(cell).join(",")}\r\n`;
  yield line(["step", "epoch", "time", ...keys]);
  for await (const { step, epoch, time, values } of data)
    yield line([step, epoch, time, ...keys.map((key) => (Object.hasOwn(values, key) ? values[key] : ""))]);
}

const cell = (value: unknown) => {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

const CHUNK = 64 * 1024; // characters

/** A client that reads slowly slows the source down. */
function streamOf(texts: AsyncGenerator<string>): ReadableStream<Uint8Array> {
  const turn = takingTurns();
  const encoder = new TextEncoder();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      let chunk = "";
      while (chunk.length < CHUNK) {
        await turn();
        const { value, done } = await texts.next();
        if (!done) {
          chunk += value;
          continue;
        }
        if (chunk !== "") controller.enqueue(encoder.encode(chunk));
        return controller.close();
      }
      controller.enqueue(encoder.encode(chunk));
    },
    cancel: () => void texts.return(undefined),
  });
}

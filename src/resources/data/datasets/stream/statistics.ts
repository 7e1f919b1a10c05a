/** Statistics of the live rows of a dataset or a snapshot, read in turns. A head of a log never changes, so they are kept. */
import { z } from "zod";
import type { Ctx } from "../../../../context.ts";
import type { Row } from "../../../../lib/rows/format.ts";
import { createStatistics, type RowStatistics, VALUE_TYPES } from "../../../../lib/rows/statistics.ts";
import { later } from "../../../../lib/schema.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { MIB } from "../../../../lib/units.ts";
import { liveBytes } from "../../../../platform/rows/live.ts";
import type { DatasetRow } from "../table.ts";
import { viewOf } from "./reading.ts";

const MOST_ROWS = 200_000;
const MOST_BYTES = 256 * MIB;
const MOST_KEPT = 64;

const Spread = later(() =>
  z.object({
    min: z.number(),
    mean: z.number(),
    max: z.number(),
    histogram: z.array(z.object({ from: z.number(), to: z.number().describe("Not included"), count: z.int() })),
  }),
);
export const DatasetStatistics = later(() =>
  z
    .object({
      object: z.literal("dataset.statistics"),
      dataset_id: z.string(),
      snapshot: z.string().nullable(),
      measured_rows: z.int(),
      is_whole: z.boolean().describe("Every row was measured"),
      duplicates: z.int().describe("Measured rows that are equal to an earlier one"),
      columns: z.array(
        z.object({
          name: z.string(),
          present: z.int().describe("Rows that have the column"),
          types: z.array(z.object({ type: z.enum(VALUE_TYPES), count: z.int() })),
          length: Spread.nullable().describe("Characters of the texts, those of messages together"),
          number: Spread.nullable(),
          distinct: z.int().nullable().describe("Different values. Null: too many, or they are no single values"),
          frequent: z
            .array(z.object({ value: z.string(), count: z.int() }))
            .describe("At most 10 values that occur more than once, cut to 80 characters"),
        }),
      ),
      columns_left_out: z.int().describe("Columns beyond the first 64"),
    })
    .meta({ id: "DatasetStatistics" }),
);
export type DatasetStatistics = z.infer<typeof DatasetStatistics>;

export type MeasuredRows = RowStatistics & { isWhole: boolean };

export async function statisticsOf(
  ctx: Ctx,
  row: DatasetRow,
  snapshot: string | undefined,
): Promise<DatasetStatistics> {
  const { rows, ...measured } = await measuredOf(ctx, row, snapshot);
  const { isWhole, ...statistics } = measured;
  return {
    object: "dataset.statistics",
    dataset_id: row.id,
    snapshot: snapshot ?? null,
    measured_rows: rows,
    is_whole: isWhole,
    ...statistics,
  };
}

/** Two callers at once share one measurement. One that fails is forgotten. */
function measuredOf(ctx: Ctx, row: DatasetRow, snapshot: string | undefined): Promise<MeasuredRows> {
  const view = viewOf(ctx, row, snapshot);
  const { statistics } = ctx.state.datasets;
  const key = `${view.rows?.file.path ?? row.id} ${view.head}`;
  const known = statistics.get(key);
  if (known) {
    view.rows?.release();
    return known;
  }
  const measuring = measure(ctx, view).finally(() => view.rows?.release());
  statistics.set(key, measuring);
  measuring.catch(() => statistics.delete(key));
  if (statistics.size > MOST_KEPT) statistics.delete(statistics.keys().next().value ?? "");
  return measuring;
}

async function measure(ctx: Ctx, { rows, head }: ReturnType<typeof viewOf>): Promise<MeasuredRows> {
  const statistics = createStatistics();
  const turn = takingTurns();
  const decoder = new TextDecoder();
  let [count, bytes] = [0, 0];
  for (const piece of rows ? liveBytes(rows.file, head) : [])
    for (const line of linesOf(piece.bytes)) {
      await turn();
      ctx.closing.throwIfAborted();
      if (count >= MOST_ROWS || bytes >= MOST_BYTES) return { ...statistics.result(), isWhole: false };
      count++;
      bytes += line.byteLength;
      statistics.add(JSON.parse(decoder.decode(line)) as Row, Bun.hash(line));
    }
  return { ...statistics.result(), isWhole: true };
}

const LF = 10;

function* linesOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; ) {
    const end = bytes.indexOf(LF, at);
    const stop = end < 0 ? bytes.byteLength : end;
    if (stop > at) yield bytes.subarray(at, stop);
    at = stop + 1;
  }
}

import { UsageError } from "../../lib/errors.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS, wholeOf } from "../args.ts";
import { ApiError, type Client } from "../client.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { count, note, print, printJson } from "../output.ts";
import { createProgress } from "../progress.ts";
import { type Batch, batchesOf } from "../transfer/batches.ts";
import { type Rows, withRows } from "../transfer/import_rows.ts";
import { createMeter, type Meter } from "../transfer/meter.ts";
import { withRetries } from "../transfer/retry.ts";
import { type Chunk, openSource } from "../transfer/source.ts";
import { type Append, type Dataset, mustFind } from "./find.ts";
import { knownShape, MAP_FLAG, mapOf, SHAPE_FLAG } from "./reading_flags.ts";

const BATCH_ROWS = 5000;
const BATCH_BYTES = 8 << 20;

export const append = command({
  summary: "Append rows to a dataset, in batches that are each written completely and once",
  takes: ["dataset", "file?"],
  flags: {
    ...SERVER_FLAGS,
    "batch-rows": { type: "string", value: "N", doc: `Maximum number of rows per batch (default ${BATCH_ROWS})` },
    "expect-head": { type: "string", value: "N", doc: "Fail unless the newest row is N; 0 = the dataset is empty" },
    map: MAP_FLAG,
    shape: SHAPE_FLAG,
    json: JSON_FLAG,
  },
  examples: [
    "verk datasets append support new.jsonl",
    "verk datasets append support faq.csv --map question=prompt --map answer=completion",
    `echo '{"_op":"tombstone","_row_id":7}' | verk datasets append ds_01j9…`,
  ],
  fields: { expected_head_row: "--expect-head" },
  exits: {
    1: "failed: a line is not a valid row, or the server cannot be reached; the message says which rows were appended",
    [INTERRUPTED]: "interrupted: the message says which rows were appended",
  },
  async run({ json, "batch-rows": rows, "expect-head": head, map, shape, ...where }, target = "", file = "-") {
    const maxLines = wholeOf("batch-rows", rows) ?? BATCH_ROWS;
    if (maxLines === 0) throw new UsageError("--batch-rows: expected at least 1");
    const expectedHead = wholeOf("expect-head", head);
    const reading = { map: mapOf(map), shape: knownShape(shape) };
    const source = await openSource(file);
    const progress = createProgress();
    const tally = createTally();
    try {
      const { client } = await connect(where);
      const dataset = await mustFind(client, target);
      const code = await interruptible(async (signal) => {
        const input = { path: file, source, config: where.config, signal };
        const { format } = dataset;
        await withRows(
          input,
          { ...reading, ...(format === null ? {} : { format }) },
          async ({ chunks, size, unit }) => {
            const meter = createMeter(progress, `appending to ${dataset.name}`, size);
            tally.unit = unit;
            await sendAll({ client, dataset, chunks, tally, signal }, { maxLines, expectedHead, meter });
          },
        );
        return EXIT.ok;
      });
      progress.end();
      if (code === EXIT.ok) report(dataset, tally, json);
      else note(`verk: interrupted. ${tally.summary()} The batch that was being sent may have been appended, too.`);
      return code;
    } catch (error) {
      progress.end();
      if (tally.last && error instanceof Error) error.message += ` ${tally.summary()}`;
      throw error;
    } finally {
      progress.end();
      await source.close();
    }
  },
});

type Work = { client: Client; dataset: Dataset; chunks: AsyncIterable<Chunk>; tally: Tally; signal: AbortSignal };
type Batching = { maxLines: number; expectedHead: number | undefined; meter: Meter };

async function sendAll({ client, dataset, chunks, tally, signal }: Work, { maxLines, expectedHead, meter }: Batching) {
  const run = crypto.randomUUID();
  let number = 0;
  for await (const batch of batchesOf(chunks, { maxLines, maxBytes: BATCH_BYTES })) {
    const query = number === 0 && expectedHead !== undefined ? `?expected_head_row=${expectedHead}` : "";
    const headers = { "content-type": "application/x-ndjson", "idempotency-key": `${run}-${number++}` };
    const path = `/v1/datasets/${dataset.id}/rows${query}`;
    // The idempotency key prevents that a retry appends a batch twice.
    const answer = await withRetries(signal, () =>
      client.call<Append>("POST", path, undefined, { headers, raw: batch.bytes, signal }),
    ).catch((error) => {
      throw inTheFile(error, batch, tally.unit);
    });
    tally.add(answer.body, batch);
    meter.pass(batch.bytes.byteLength);
  }
  if (number === 0) throw new UsageError("datasets append: the file has no rows", EXIT.failed);
}

/**
 * Converts line numbers of a batch to line or row numbers of the file. The server reports a line by number or by JSON
 * pointer.
 */
function inTheFile(error: unknown, { firstLine }: Batch, unit: Rows["unit"]): unknown {
  const at = (line: number) => `${unit === "line" ? "Line" : "Row"} ${line}: `;
  if (error instanceof ApiError)
    error.message = error.message
      .replace(/^Line (\d+): /, (_, line) => at(Number(line) + firstLine - 1))
      .replace(/^\/(\d+)(\/[^:]*)?: /, (_, index) => at(Number(index) + firstLine));
  return error;
}

type Tally = ReturnType<typeof createTally>;

function createTally() {
  const sums = { appended: 0, superseded: 0, tombstoned: 0 };
  let first: Append | undefined;
  let last: Append | undefined;
  let lines = 0;
  return {
    unit: "line" as Rows["unit"],
    get last() {
      return last;
    },
    add(answer: Append, batch: Batch) {
      first ??= answer;
      last = answer;
      for (const name of ["appended", "superseded", "tombstoned"] as const) sums[name] += answer[name];
      lines = batch.firstLine + batch.lines - 1;
    },
    summary(): string {
      if (!last || !first) return "No rows were appended.";
      const rows = rowsOf({ ...last, first_row_id: first.first_row_id });
      const units = this.unit === "line" ? "Lines" : "Rows";
      return `${units} 1 to ${lines} were appended (${rows}). Continue from ${this.unit} ${lines + 1}.`;
    },
    total: () => (last && first ? { ...last, ...sums, first_row_id: first.first_row_id } : undefined),
  };
}

const rowsOf = ({ first_row_id: first, last_row_id: last }: Pick<Append, "first_row_id" | "last_row_id">) =>
  first === last ? `row ${first}` : `rows ${first} to ${last}`;

function report({ name, id }: Dataset, tally: Tally, json: boolean) {
  const total = tally.total();
  if (!total) return;
  const { batch_id, ...answer } = total; // there may be several batches
  if (json) return printJson(answer);
  print(rowsOf(total));
  const changes = total.superseded + total.tombstoned;
  const changed = changes === 0 ? "" : `, ${total.superseded} superseded, ${total.tombstoned} removed`;
  note(
    `${name} (${id}): ${total.appended} appended${changed}; ${count(total.unsnapshotted_rows ?? 0, "row")} since the newest snapshot.`,
  );
}

import { UsageError } from "../../lib/errors.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS, wholeOf } from "../args.ts";
import { ApiError, type Client } from "../client.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { note, print, printJson } from "../output.ts";
import { createProgress } from "../progress.ts";
import { type Batch, batchesOf } from "../transfer/batches.ts";
import { createMeter, type Meter } from "../transfer/meter.ts";
import { withRetries } from "../transfer/retry.ts";
import { openSource, type Source } from "../transfer/source.ts";
import { type Append, type Dataset, mustFind } from "./find.ts";

const BATCH_ROWS = 5000;
const BATCH_BYTES = 8 << 20;

export const append = command({
  summary: "Append rows to a dataset, in batches that each land whole and once",
  takes: ["dataset", "file?"],
  flags: {
    ...SERVER_FLAGS,
    "batch-rows": { type: "string", value: "N", doc: `Rows of one batch at most (default ${BATCH_ROWS})` },
    "expect-head": { type: "string", value: "N", doc: "Refuse unless the newest row is N; 0 = the dataset is empty" },
    json: JSON_FLAG,
  },
  examples: [
    "verk datasets append support new.jsonl",
    `echo '{"_op":"tombstone","_row_id":7}' | verk datasets append ds_01j9…`,
  ],
  exits: {
    1: "failed: a line is no row, or the server stays away; what landed before is said",
    [INTERRUPTED]: "interrupted: what landed before is said",
  },
  async run({ json, "batch-rows": rows, "expect-head": head, ...where }, target = "", file = "-") {
    const maxLines = wholeOf("batch-rows", rows) ?? BATCH_ROWS;
    if (maxLines === 0) throw new UsageError("--batch-rows: a batch has at least one row");
    const expectedHead = wholeOf("expect-head", head);
    const source = await openSource(file);
    const progress = createProgress();
    const landed = createTally();
    try {
      const { client } = await connect(where);
      const dataset = await mustFind(client, target);
      const code = await interruptible(async (signal) => {
        const meter = createMeter(progress, `appending to ${dataset.name}`, source.size);
        await sendAll({ client, dataset, source, landed, signal }, { maxLines, expectedHead, meter });
        return EXIT.ok;
      });
      progress.end();
      if (code === EXIT.ok) report(dataset, landed, json);
      else note(`verk: interrupted. ${landed.words()} The batch under way may have landed too.`);
      return code;
    } catch (error) {
      progress.end();
      if (landed.last && error instanceof Error) error.message += ` ${landed.words()}`;
      throw error;
    } finally {
      progress.end();
      await source.close();
    }
  },
});

type Work = { client: Client; dataset: Dataset; source: Source; landed: Tally; signal: AbortSignal };
type How = { maxLines: number; expectedHead: number | undefined; meter: Meter };

async function sendAll({ client, dataset, source, landed, signal }: Work, { maxLines, expectedHead, meter }: How) {
  const run = crypto.randomUUID();
  let number = 0;
  for await (const batch of batchesOf(source.chunks(), { maxLines, maxBytes: BATCH_BYTES })) {
    const query = number === 0 && expectedHead !== undefined ? `?expected_head_row=${expectedHead}` : "";
    const headers = { "content-type": "application/x-ndjson", "idempotency-key": `${run}-${number++}` };
    const path = `/v1/datasets/${dataset.id}/rows${query}`;
    // The key keeps a batch from landing twice.
    const answer = await withRetries(signal, () =>
      client.call<Append>("POST", path, undefined, { headers, raw: batch.bytes, signal }),
    ).catch((error) => {
      throw inTheFile(error, batch);
    });
    landed.add(answer.body, batch);
    meter.pass(batch.bytes.byteLength);
  }
  if (number === 0) throw new UsageError("datasets append: there are no rows in it", EXIT.failed);
}

/** The server counts the lines of a batch, people those of their file. It names some by number, some by pointer. */
function inTheFile(error: unknown, { firstLine }: Batch): unknown {
  if (error instanceof ApiError)
    error.message = error.message
      .replace(/^Line (\d+): /, (_, line) => `Line ${Number(line) + firstLine - 1}: `)
      .replace(/^\/(\d+)(\/[^:]*)?: /, (_, index) => `Line ${Number(index) + firstLine}: `);
  return error;
}

type Tally = ReturnType<typeof createTally>;

function createTally() {
  const sums = { appended: 0, superseded: 0, tombstoned: 0 };
  let first: Append | undefined;
  let last: Append | undefined;
  let lines = 0;
  return {
    get last() {
      return last;
    },
    add(answer: Append, batch: Batch) {
      first ??= answer;
      last = answer;
      for (const name of ["appended", "superseded", "tombstoned"] as const) sums[name] += answer[name];
      lines = batch.firstLine + batch.lines - 1;
    },
    words: () =>
      last && first
        ? `Up to line ${lines} it is done (rows ${first.first_row_id} to ${last.last_row_id}); go on from line ${lines + 1}.`
        : "Nothing was appended.",
    total: () => (last && first ? { ...last, ...sums, first_row_id: first.first_row_id } : undefined),
  };
}

function report({ name, id }: Dataset, landed: Tally, json: boolean) {
  const total = landed.total();
  if (!total) return;
  const { batch_id, ...answer } = total; // there were several
  if (json) return printJson(answer);
  print(`${total.first_row_id}..${total.last_row_id}`);
  const changes = total.superseded + total.tombstoned;
  const changed = changes === 0 ? "" : `, ${total.superseded} superseded, ${total.tombstoned} removed`;
  note(`${name} (${id}): ${total.appended} appended${changed}; ${total.unsnapshotted_rows} since the newest snapshot.`);
}

/** Items from the rows of a dataset. */
import type { Ctx } from "../../../context.ts";
import { type Format, formatOf, isRow, type Row, rowFault } from "../../../lib/rows/format.ts";
import { MIB } from "../../../lib/units.ts";
import { liveRows } from "../../../platform/rows/live.ts";
import * as datasets from "../../data/datasets/service.ts";
import { mustHold, pathFor } from "../../data/datasets/stream/files.ts";
import { mustGet as mustGetSnapshot } from "../../data/datasets/stream/snapshots.ts";
import type { Input, Source } from "./label_schema.ts";
import type { AddItems } from "./schema.ts";
import { type ItemContent, invalid, NO_SOURCE, outputsFault, textOf } from "./sources.ts";
import type { QueueRow } from "./table.ts";

const MAX_TEXT = 64 * MIB; // of one request: all of it is in memory until the commit

/** The live rows of a dataset, in their order. */
export async function datasetItems(
  ctx: Ctx,
  queue: QueueRow,
  asked: NonNullable<AddItems["dataset"]>,
): Promise<ItemContent[]> {
  const [id = "", snapshotName] = asked.id.split("@");
  const dataset = datasets.mustGet(ctx, queue.workspaceId, id, "/dataset/id");
  const snapshot =
    snapshotName === undefined ? undefined : mustGetSnapshot(ctx, dataset, `@${snapshotName}`, "/dataset/id");
  if (!snapshot) datasets.mustBeStream(dataset);
  const head = snapshot?.headRow ?? dataset.headRow;
  if (head === 0) return [];
  const rows = mustHold(ctx, pathFor(ctx, dataset, snapshot?.number ?? 0));
  try {
    const items: ItemContent[] = [];
    let size = 0;
    let after = asked.after_row_id;
    for (let more = true; more && items.length < asked.limit; ) {
      const { entries, hasMore } = await liveRows(rows.file, after, asked.limit - items.length, head);
      for (const { rowId, target, text } of entries) {
        const row: unknown = JSON.parse(text ?? "null");
        after = rowId;
        size += text?.length ?? 0;
        if (size > MAX_TEXT)
          throw invalid("/dataset/limit", `the first ${items.length + 1} rows have over 64 MiB: add fewer at a time`);
        if (isRow(row)) items.push(fromRow(queue, row, { ...asked, datasetId: id, rowId: target ?? rowId }));
      }
      more = hasMore;
    }
    return items;
  } finally {
    rows.release();
  }
}

/** Columns of an item, by the format of the dataset and the mode of the queue. */
const COLUMNS: Record<Format, Record<QueueRow["mode"], string[]>> = {
  prompt: { single: [], pairwise: [] },
  completion: { single: ["completion"], pairwise: [] },
  preference: { single: ["chosen"], pairwise: ["chosen", "rejected"] },
  chat: { single: [], pairwise: [] }, // the last message is the output
};

type RowOptions = Pick<NonNullable<AddItems["dataset"]>, "fields"> & { datasetId: string; rowId: number };

function fromRow(queue: QueueRow, row: Row, { fields, datasetId, rowId }: RowOptions): ItemContent {
  const talk = fields.input === undefined && row["prompt"] === undefined ? splitMessages(row["messages"]) : undefined;
  const input = talk?.input ?? row[fields.input ?? "prompt"];
  const columns = fields.outputs ?? COLUMNS[formatOf(row)][queue.mode];
  const outputs = columns.length > 0 || !talk ? columns.map((name) => textOf(row[name])) : talk.outputs;
  const at = `row ${rowId} of ${datasetId}`;
  if (input === undefined || rowFault({ prompt: input }, "prompt"))
    throw invalid("/dataset/fields/input", `${at} has no text and no messages in ${fields.input ?? "prompt"}`);
  const absent = outputs.indexOf(undefined);
  if (absent >= 0) throw invalid("/dataset/fields/outputs", `${at} has no text in ${columns[absent]}`);
  const fault = outputsFault(queue.mode, outputs.length);
  if (fault) throw invalid("/dataset/fields/outputs", `${fault}: name the columns in fields.outputs`);
  const source: Source = { ...NO_SOURCE, type: "dataset", dataset_id: datasetId, row_id: rowId };
  return { source, input: input as Input, outputs: outputs as string[], reference: null, metadata: {} };
}

/** A conversation whose last message is the output. */
function splitMessages(messages: unknown): { input: Input; outputs: string[] } | undefined {
  if (!Array.isArray(messages)) return undefined;
  const last: unknown = messages.at(-1);
  const answer = isRow(last) && last["role"] === "assistant" ? textOf(last["content"]) : undefined;
  return answer === undefined || messages.length < 2
    ? { input: messages, outputs: [] }
    : { input: messages.slice(0, -1), outputs: [answer] };
}

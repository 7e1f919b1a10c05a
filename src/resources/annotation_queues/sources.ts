/** The content of new items: given in the request, from captured traces, or from the rows of a dataset. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { type Format, formatOf, isRow, type Row, rowFault } from "../../lib/rows/format.ts";
import { liveRows } from "../../platform/rows/live.ts";
import * as datasets from "../datasets/service.ts";
import { mustHold, pathFor } from "../datasets/stream/files.ts";
import { mustGet as mustGetSnapshot } from "../datasets/stream/snapshots.ts";
import type { Input, Source } from "./label_schema.ts";
import type { AddItems, NewItem } from "./schema.ts";
import type { ItemRow, QueueRow } from "./table.ts";

export type ItemContent = Pick<ItemRow, "source" | "input" | "outputs" | "reference" | "metadata">;

const NO_SOURCE: Source = {
  type: "given",
  trace_ids: [],
  dataset_id: null,
  row_id: null,
  experiment_item_id: null,
};

const invalid = (param: string, message: string) =>
  new AppError("schema", `${param.slice(1).replaceAll("/", ".")}: ${message}`, { param });

/** Outputs that an item of this queue can have. */
const OUTPUTS = { single: [0, 1], pairwise: [2, 2] } as const;

function outputsFault(mode: QueueRow["mode"], outputs: number): string | undefined {
  const [least, most] = OUTPUTS[mode];
  if (outputs >= least && outputs <= most) return undefined;
  return mode === "pairwise" ? "an item of a pairwise queue has two" : "an item of a single queue has one at most";
}

export function givenItems(ctx: Ctx, queue: QueueRow, items: readonly NewItem[]): ItemContent[] {
  return items.map((item, i) => {
    const at = `/items/${i}`;
    const content = item.trace_ids.length > 0 ? fromTraces(ctx, queue, item, at) : fromRequest(item, at);
    const fault = outputsFault(queue.mode, content.outputs.length);
    if (fault) throw invalid(`${at}/${item.trace_ids.length > 0 ? "trace_ids" : "outputs"}`, fault);
    return { ...content, reference: item.reference ?? null, metadata: item.metadata };
  });
}

type Content = Pick<ItemContent, "source" | "input" | "outputs">;

function fromRequest({ input, outputs, experiment_item_id: experiment }: NewItem, at: string): Content {
  if (input === undefined) throw invalid(`${at}/input`, "is missing: send input, or trace_ids");
  const type = experiment ? "experiment" : "given";
  return { source: { ...NO_SOURCE, type, experiment_item_id: experiment ?? null }, input, outputs };
}

/**
 * A pairwise item takes one trace with two answers, or two traces. Two traces must have the same input, so that their
 * outputs can be compared.
 */
function fromTraces(ctx: Ctx, queue: QueueRow, item: NewItem, at: string): Content {
  if (item.input !== undefined || item.outputs.length > 0)
    throw invalid(`${at}/trace_ids`, "an item takes its content from traces or from input and outputs, not from both");
  const contents = item.trace_ids.map((id, i) => readContent(ctx, queue, { id, param: `${at}/trace_ids/${i}` }));
  const input = contents[0]?.input as Input;
  if (contents.some((content) => !Bun.deepEquals(content.input, input)))
    throw invalid(`${at}/trace_ids`, "the two traces have different inputs");
  const source: Source = { ...NO_SOURCE, type: "trace", trace_ids: item.trace_ids };
  const outputs = contents.flatMap((content) => content.outputs);
  return { source, input, outputs: queue.mode === "single" ? outputs.slice(0, 1) : outputs };
}

function readContent(ctx: Ctx, { workspaceId }: QueueRow, { id, param }: { id: string; param: string }) {
  const { input, output } = readTrace(ctx, workspaceId, id, param);
  const outputs = (Array.isArray(output) ? output : [output]).map((each) => textOf(isRow(each) ? [each] : each));
  if (input === null || rowFault({ prompt: input }, "prompt") || outputs.some((text) => text === undefined))
    throw invalid(param, `trace ${id} has no text: set capture to full on its deployment, then use later traces`);
  return { input: input as Input, outputs: outputs as string[] };
}

/** The 404 of an unknown trace names the field of this request. */
function readTrace(ctx: Ctx, workspaceId: string, id: string, param: string) {
  const { readTrace: read } = ctx.state.annotationQueues;
  if (!read) throw invalid(param, "this server stores no traces: send input and outputs");
  try {
    return read(ctx, workspaceId, id);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "resource_not_found") throw error;
    throw new AppError("resource_not_found", error.message, { param, cause: error });
  }
}

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
    let after = asked.after_row_id;
    for (let more = true; more && items.length < asked.limit; ) {
      const { entries, hasMore } = await liveRows(rows.file, after, asked.limit - items.length, head);
      for (const { rowId, target, text } of entries) {
        const row: unknown = JSON.parse(text ?? "null");
        after = rowId;
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

/** The text of a column: a string, or a list with one message. */
function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  const only: unknown = Array.isArray(value) && value.length === 1 ? value[0] : undefined;
  return isRow(only) && typeof only["content"] === "string" ? only["content"] : undefined;
}

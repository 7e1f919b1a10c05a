/** The content of new items: given in the request, from captured traces, or from the items of an experiment. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { isRow, rowFault } from "../../../lib/rows/format.ts";
import type { Input, Source } from "./label_schema.ts";
import type { ContentReader } from "./live.ts";
import type { NewItem } from "./schema.ts";
import type { ItemRow, QueueRow } from "./table.ts";

export type ItemContent = Pick<ItemRow, "source" | "input" | "outputs" | "reference" | "metadata">;

export const NO_SOURCE: Source = {
  type: "given",
  trace_ids: [],
  dataset_id: null,
  row_id: null,
  experiment_item_ids: [],
};

export const invalid = (param: string, message: string) =>
  new AppError("schema", `${param.slice(1).replaceAll("/", ".")}: ${message}`, { param });

/** Outputs that an item of this queue can have. */
const OUTPUTS = { single: [0, 1], pairwise: [2, 2] } as const;

export function outputsFault(mode: QueueRow["mode"], outputs: number): string | undefined {
  const [least, most] = OUTPUTS[mode];
  if (outputs >= least && outputs <= most) return undefined;
  return mode === "pairwise" ? "an item of a pairwise queue has two" : "an item of a single queue has one at most";
}

type Content = Pick<ItemContent, "source" | "input" | "outputs" | "reference">;

export function givenItems(ctx: Ctx, queue: QueueRow, items: readonly NewItem[]): ItemContent[] {
  return items.map((item, i) => {
    const at = `/items/${i}`;
    const { content, field } = contentOf(ctx, queue, item, at);
    const fault = outputsFault(queue.mode, content.outputs.length);
    if (fault) throw invalid(`${at}/${field}`, fault);
    return { ...content, reference: item.reference ?? content.reference, metadata: item.metadata };
  });
}

/** `field`: the one that the outputs come from. */
function contentOf(ctx: Ctx, queue: QueueRow, item: NewItem, at: string): { content: Content; field: string } {
  const { input, outputs, trace_ids, experiment_item_ids } = item;
  const named = { trace_ids, experiment_item_ids };
  const fields = (["trace_ids", "experiment_item_ids"] as const).filter((name) => named[name].length > 0);
  const [field] = fields;
  if (field && (fields.length > 1 || input !== undefined || outputs.length > 0))
    throw invalid(
      `${at}/${field}`,
      "an item takes its content from trace_ids, from experiment_item_ids, or from input and outputs: send one of them",
    );
  if (field) return { content: fromStored(ctx, queue, { field, ids: named[field], at }), field };
  if (input === undefined) throw invalid(`${at}/input`, "is missing: send input, trace_ids or experiment_item_ids");
  return { content: { source: NO_SOURCE, input, outputs, reference: null }, field: "outputs" };
}

type Stored = { field: "trace_ids" | "experiment_item_ids"; ids: string[]; at: string };

/**
 * A pairwise item takes one trace with two answers, or two traces or experiment items. Two must have the same input, so
 * that their outputs can be compared.
 */
function fromStored(ctx: Ctx, { mode, workspaceId }: QueueRow, { field, ids, at }: Stored): Content {
  const contents = ids.map((id, i) => readContent(ctx, workspaceId, { field, id, param: `${at}/${field}/${i}` }));
  const input = contents[0]?.input as Input;
  if (contents.some((content) => !Bun.deepEquals(content.input, input)))
    throw invalid(`${at}/${field}`, "the two have different inputs");
  const type = field === "trace_ids" ? "trace" : "experiment";
  const outputs = contents.flatMap((content) => content.outputs);
  return {
    source: { ...NO_SOURCE, type, [field]: ids },
    input,
    outputs: mode === "single" ? outputs.slice(0, ids.length) : outputs,
    reference: contents[0]?.reference ?? null,
  };
}

/** `param`: the pointer to the id in the request. */
type NamedSource = { field: Stored["field"]; id: string; param: string };

function readContent(ctx: Ctx, workspaceId: string, { field, id, param }: NamedSource) {
  const { readers } = ctx.state.annotationQueues;
  const { input, output, reference } = read(ctx, workspaceId, readers[field], { id, param });
  const outputs = (Array.isArray(output) ? output : [output]).map((each) => textOf(isRow(each) ? [each] : each));
  if (input === null || rowFault({ prompt: input }, "prompt") || outputs.some((text) => text === undefined))
    throw invalid(param, `${id} has no text of ${input === null ? "an input" : "an answer"}: ${NO_TEXT[field]}`);
  return { input: input as Input, outputs: outputs as string[], reference: reference ?? null };
}

const NO_TEXT = {
  trace_ids: "set capture to full on its deployment, then use later traces",
  experiment_item_ids: "wait until the experiment has its answer, or leave out items that failed",
} as const;

/** The 404 of an unknown id names the field of this request. */
function read(ctx: Ctx, workspaceId: string, reader: ContentReader, { id, param }: Omit<NamedSource, "field">) {
  try {
    return reader(ctx, workspaceId, id);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "resource_not_found") throw error;
    throw new AppError("resource_not_found", error.message, { param, cause: error });
  }
}

/** The text of a column: a string, or a list with one message. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  const only: unknown = Array.isArray(value) && value.length === 1 ? value[0] : undefined;
  return isRow(only) && typeof only["content"] === "string" ? only["content"] : undefined;
}

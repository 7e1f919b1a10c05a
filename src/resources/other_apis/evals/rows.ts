/** The entries of a run as the rows of a dataset. Each row has its item as JSON text, which the graders read. */
import type { Ctx } from "../../../context.ts";
import { bodyLimits } from "../../../http/limits/body_limits.ts";
import { AppError } from "../../../lib/errors.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import { importRows } from "../../data/datasets/stream/upload.ts";
import type { DatasetRow } from "../../data/datasets/table.ts";
import { asText, fieldOf } from "../../quality/evaluators/field.ts";
import { linesOf } from "../batches/lines.ts";
import * as files from "../files/service.ts";
import { type DataSource, Entry, type InputMessages } from "./schema.ts";

/** Columns of the rows. */
export const ITEM = "item";
export const OUTPUT = "output";

const refuse = (path: string, message: string) =>
  new AppError("schema", `${path.replaceAll("/", ".")}: ${message}`, { param: `/${path}` });

type Item = Entry["item"];
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

function filled(text: string, item: Item): string {
  return text.replace(/\{\{\s*item\.([\w.]+)\s*\}\}/g, (_, path: string) => {
    const value = fieldOf(item, path);
    if (value === undefined) throw refuse("data_source/input_messages", `an item has no field ${path}`);
    return asText(value);
  });
}

function promptOf(messages: InputMessages, item: Item): object[] {
  if (messages.type === "template")
    return messages.template.map(({ role, content }) => ({
      role: role === "developer" ? "system" : role,
      content: filled(typeof content === "string" ? content : content.text, item),
    }));
  const conversation = fieldOf(item, messages.item_reference.slice("item.".length));
  const isTalk = (value: unknown): value is { role: string; content: string }[] =>
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((each) => isObject(each) && typeof each["role"] === "string" && typeof each["content"] === "string");
  if (isTalk(conversation)) return conversation.map(({ role, content }) => ({ role, content }));
  throw refuse("data_source/input_messages", `${messages.item_reference} is no list of messages in an item`);
}

/** `at`: the place of the entry, for errors. */
function rowOf(source: DataSource, { item, sample }: Entry, at: string): object {
  const text = JSON.stringify(item);
  if (source.type !== "jsonl") return { prompt: promptOf(source.input_messages, item), [ITEM]: text };
  const output = sample?.output_text;
  if (typeof output !== "string")
    throw refuse(at, "has no sample.output_text, which a run with recorded answers needs");
  return { prompt: text, [ITEM]: text, [OUTPUT]: output };
}

async function* entriesOf(ctx: Ctx, workspaceId: string, { source }: DataSource): AsyncGenerator<[Entry, string]> {
  if (source.type === "file_content") {
    for (const [i, entry] of source.content.entries()) yield [entry, `data_source/source/content/${i}`];
    return;
  }
  const at = "data_source/source/id";
  const file = files.mustGet(ctx, workspaceId, source.id, `/${at}`);
  if (file.purpose !== "evals")
    throw refuse(at, `the file has the purpose ${file.purpose}. Upload it with the purpose evals`);
  const opened = await ctx.storage.get(file.storageKey);
  if (!opened) throw new LostKeyError(file.storageKey);
  const { maxBytes } = bodyLimits(ctx, "chat");
  for await (const { bytes, number } of linesOf(opened.stream, maxBytes)) {
    if (bytes.byteLength > maxBytes) throw refuse(at, `line ${number} is longer than ${maxBytes} bytes`);
    const text = new TextDecoder().decode(bytes);
    if (text.trim() === "") continue;
    const entry = Entry.safeParse(parsed(text));
    if (!entry.success) throw refuse(at, `line ${number} is no JSON object with the object item`);
    yield [entry.data, at];
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const encoder = new TextEncoder();

/** The same entries are the same dataset. */
export async function datasetOf(
  ctx: Ctx,
  caller: { workspaceId: string; signal: AbortSignal },
  { name, source }: { name: string; source: DataSource },
): Promise<DatasetRow> {
  async function* rows(): AsyncGenerator<Uint8Array> {
    for await (const [entry, at] of entriesOf(ctx, caller.workspaceId, source))
      yield encoder.encode(`${JSON.stringify(rowOf(source, entry, at))}\n`);
  }
  const part = { name: "file", filename: "rows.jsonl", contentType: "application/jsonl", stream: rows() };
  try {
    return await importRows(ctx, caller, part, { name, metadata: {}, map: {}, format: "prompt" });
  } catch (error) {
    if (!(error instanceof AppError) || error.param !== "file") throw error;
    throw new AppError(error.code, `data_source.source: ${error.message}`, {
      param: "/data_source/source",
      cause: error,
    });
  }
}

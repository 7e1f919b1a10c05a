/** The rows of a fine-tuning file as a dataset. The same file with the same method is the same dataset. */
import type { Ctx } from "../../../context.ts";
import { bodyLimits } from "../../../http/limits/body_limits.ts";
import { AppError } from "../../../lib/errors.ts";
import { isObject } from "../../../lib/json/object.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import { importRows } from "../../data/datasets/stream/upload.ts";
import type { DatasetRow } from "../../data/datasets/table.ts";
import { linesOf } from "../batches/lines.ts";
import type { ClientFileRow } from "../files/table.ts";
import type { Method } from "./schema.ts";

const encoder = new TextEncoder();
const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

type Reading = { method: Method["type"]; param: string; signal: AbortSignal };

export async function datasetOf(
  ctx: Ctx,
  file: ClientFileRow,
  { method, param, signal }: Reading,
): Promise<DatasetRow> {
  const refuse = (message: string) => new AppError("schema", `${param}: ${message}`, { param: `/${param}` });
  if (file.purpose !== "fine-tune")
    throw refuse(`the file has the purpose ${file.purpose}. Upload it with the purpose fine-tune`);
  const opened = await ctx.storage.get(file.storageKey);
  if (!opened) throw new LostKeyError(file.storageKey);
  const { maxBytes } = bodyLimits(ctx, "chat");
  async function* rows(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const { bytes, number } of linesOf(chunks, maxBytes)) {
      if (bytes.byteLength > maxBytes) throw refuse(`line ${number} is longer than ${maxBytes} bytes`);
      const text = textOf(bytes);
      if (text?.trim() === "") continue;
      const row = text === undefined ? "is not valid JSON in UTF-8" : rowOf(method, parsed(text));
      if (typeof row === "string") throw refuse(`line ${number} ${row}`);
      yield encoder.encode(`${JSON.stringify(row)}\n`);
    }
  }
  const part = { name: "file", filename: "rows.jsonl", contentType: "application/jsonl", stream: rows(opened.stream) };
  try {
    return await importRows(ctx, { workspaceId: file.workspaceId, signal }, part, {
      name: file.filename,
      metadata: { file: file.id },
      map: {},
      ...(method === "reinforcement" ? { format: "prompt" as const } : {}),
    });
  } catch (error) {
    if (!(error instanceof AppError) || error.param !== "file") throw error;
    throw new AppError(error.code, `${param}: ${error.message}`, { param: `/${param}`, cause: error });
  }
}

function textOf(bytes: Uint8Array): string | undefined {
  try {
    return strictUtf8.decode(bytes);
  } catch {
    return undefined;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

type Line = Record<string, unknown>;

/** A line of the file as a row, or the reason why it is none. The dataset checks the messages themselves. */
export function rowOf(type: Method["type"], line: unknown): Line | string {
  if (!isObject(line)) return "must be a JSON object";
  if (type === "dpo") return preferenceOf(line);
  if (!Array.isArray(line["messages"])) return 'needs "messages", a list';
  if (type === "supervised") return line;
  const { messages, ...item } = line;
  if ("prompt" in item) return 'must not have "prompt" beside "messages"';
  return { prompt: messages, ...item };
}

function preferenceOf({ input, preferred_output: chosen, non_preferred_output: rejected }: Line): Line | string {
  if (!isObject(input) || !Array.isArray(input["messages"])) return 'needs "input" with "messages", a list';
  if (!Array.isArray(chosen)) return 'needs "preferred_output", a list of messages';
  if (!Array.isArray(rejected)) return 'needs "non_preferred_output", a list of messages';
  return { prompt: input["messages"], chosen, rejected, ...("tools" in input ? { tools: input["tools"] } : {}) };
}

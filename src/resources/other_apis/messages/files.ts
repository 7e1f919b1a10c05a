/** Files of the store in messages: texts become text documents, images become images. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import { mimeTypeOf } from "../files/anthropic.ts";
import * as files from "../files/service.ts";
import type { Block, MessageParam } from "./schema.ts";

const MOST_FILES = 64;
const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

type OfFile = Extract<Block, { type: "image" | "document" }>;
type ToolResult = Extract<Block, { type: "tool_result" }>;

const isOfFile = (block: Block): block is OfFile =>
  (block.type === "image" || block.type === "document") && block.source.type === "file";

const hasFile = (block: Block): boolean =>
  isOfFile(block) || (block.type === "tool_result" && Array.isArray(block.content) && block.content.some(isOfFile));

/** The messages with the contents of their files. All files together are at most as long as one request. */
export async function withFiles<R extends { messages: MessageParam[] }>(
  ctx: Ctx,
  workspaceId: string,
  request: R,
): Promise<R> {
  const { messages } = request;
  if (!messages.some(({ content }) => typeof content !== "string" && content.some(hasFile))) return request;
  let room = ctx.config.http.max_body_bytes;
  let count = 0;
  const read = async (block: OfFile, param: string): Promise<OfFile> => {
    const file = files.mustGet(ctx, workspaceId, (block.source as { file_id: string }).file_id, param);
    room -= file.sizeBytes;
    if (room < 0 || ++count > MOST_FILES)
      throw new AppError(
        "payload_too_large",
        `The files of the messages are more than ${MOST_FILES}, or longer than ${ctx.config.http.max_body_bytes} bytes together`,
        { param },
      );
    const opened = await ctx.storage.get(file.storageKey);
    if (!opened) throw new LostKeyError(file.storageKey);
    const bytes = new Uint8Array(await new Response(opened.stream).arrayBuffer());
    if (block.type === "image") {
      const data = Buffer.from(bytes).toString("base64");
      return { ...block, source: { type: "base64", media_type: mimeTypeOf(file.filename), data } };
    }
    return { ...block, source: { type: "text", data: textOf(bytes, param) } };
  };
  const within = async (blocks: readonly Block[], at: string): Promise<Block[]> => {
    const all: Block[] = [];
    for (const [i, block] of blocks.entries()) {
      const place = `${at}/${i}`;
      if (isOfFile(block)) all.push(await read(block, `${place}/source/file_id`));
      else if (block.type === "tool_result" && Array.isArray(block.content))
        all.push({ ...block, content: await within(block.content, `${place}/content`) } as ToolResult);
      else all.push(block);
    }
    return all;
  };
  const filled: MessageParam[] = [];
  for (const [i, { role, content }] of messages.entries())
    filled.push({
      role,
      content: typeof content === "string" ? content : await within(content, `/messages/${i}/content`),
    });
  return { ...request, messages: filled };
}

function textOf(bytes: Uint8Array, param: string): string {
  try {
    return strictUtf8.decode(bytes);
  } catch (cause) {
    const message = "file_id: the file is not text in UTF-8, and other documents are not read. Upload its text";
    throw new AppError("schema", message, { param, cause });
  }
}

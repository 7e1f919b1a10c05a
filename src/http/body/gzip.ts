/** Bodies that were compressed with gzip, for routes whose clients compress. */
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";

const inflate = promisify(gunzip); // in a thread of its own

export const isGzip = ({ headers }: Request): boolean =>
  headers.get("content-encoding")?.trim().toLowerCase() === "gzip";

type Sent = { bytes: Uint8Array; maxBytes: number; workspaceId: string };

/** The content. It never becomes longer than a plain body may be. */
export async function inflated(
  ctx: Ctx,
  request: Request,
  { bytes, maxBytes, workspaceId }: Sent,
): Promise<Uint8Array> {
  try {
    const content = await inflate(bytes, { maxOutputLength: maxBytes });
    ctx.state.http.bodyMemory.reserve(request, workspaceId, content.byteLength);
    return content;
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    if ((cause as { code?: string }).code === "ERR_BUFFER_TOO_LARGE")
      throw new AppError("payload_too_large", `The body is larger than ${maxBytes} bytes after gzip`, { cause });
    throw new AppError("invalid_request", "The body is not gzip, as content-encoding says", { cause });
  }
}

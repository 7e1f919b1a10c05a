import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { type Chunks, ContentError, type StreamOptions, type Written } from "../../platform/files.ts";
import { keepOpen } from "../connection.ts";
import { callerOf } from "../request_state.ts";
import { watchSender } from "./sender_rate.ts";

/** Announced facts of the content; size and hash where they are known. */
export type Expected = { maxBytes: number; sizeBytes?: number | null; sha256?: string | null };

type Limits = Pick<StreamOptions, "maxBytes" | "expectedSha256">;
/** Throws ContentError as `writeTemp` does, and keeps nothing then. Counts what it writes. */
type Put = (body: Chunks, options: Limits) => Promise<Written>;

/** Stores the body of a request in constant memory, if it is what was announced. */
export async function receive(ctx: Ctx, request: Request, expected: Expected, put: Put): Promise<Written> {
  const declared = contentLength(request);
  if (declared !== undefined) requireSize(declared, expected);
  return take(expected, (options) => put(bodyOf(ctx, request), options));
}

/** Stores content from any source. Every mismatch is a 4xx that names what was expected. */
export async function take(expected: Expected, put: (options: Limits) => Promise<Written>): Promise<Written> {
  const { maxBytes, sizeBytes, sha256 } = expected;
  try {
    const written = await put({ maxBytes, ...(sha256 ? { expectedSha256: sha256 } : {}) });
    requireSize(written.bytes, expected);
    return written;
  } catch (error) {
    if (!(error instanceof ContentError)) throw error;
    if (error.reason === "sha256_mismatch") throw new AppError("sha256_mismatch", error.message, { param: "sha256" });
    throw typeof sizeBytes === "number" ? wrongSize(`more than ${maxBytes}`, sizeBytes) : tooLarge(maxBytes);
  }
}

function requireSize(bytes: number, { maxBytes, sizeBytes }: Expected) {
  if (typeof sizeBytes === "number" && bytes !== sizeBytes) throw wrongSize(bytes, sizeBytes);
  if (bytes > maxBytes) throw tooLarge(maxBytes);
}

const wrongSize = (bytes: number | string, announced: number) =>
  new AppError("schema", `content-length: the file was announced with ${announced} bytes, not ${bytes}`, {
    param: "content-length",
  });

const tooLarge = (bytes: number) => new AppError("payload_too_large", `The file is larger than ${bytes} bytes`);

export function contentLength(request: Request): number | undefined {
  const header = request.headers.get("content-length");
  return header === null ? undefined : Number(header);
}

/** A sender that is silent or too slow is cut off. Once the body is complete, the disk may take longer. */
async function* bodyOf(ctx: Ctx, request: Request): AsyncGenerator<Uint8Array> {
  const reader = request.body?.getReader();
  if (!reader) return keepOpen(ctx, request);
  let fault: AppError | undefined;
  // A race with a promise of the whole upload would keep every piece in memory. So the watch ends the reading instead.
  const cut = (error: AppError) => {
    fault = error;
    reader.cancel().catch(() => {});
  };
  const rate = watchSender({ bytesPerSecond: ctx.config.http.min_upload_bytes_per_second, fail: cut });
  const { turns } = ctx.state.http;
  const workspaceId = callerOf(request)?.workspaceId ?? "";
  const next = async () => {
    await turns.enter(workspaceId);
    rate.wait();
    const { done, value } = await reader.read().catch((cause) => {
      throw fault ?? new AppError("upload_incomplete", "The body broke off before its end: send it again", { cause });
    });
    rate.arrived(value?.byteLength ?? 0);
    if (fault) throw fault;
    return done ? undefined : value;
  };
  try {
    for (let chunk = await next(); chunk; chunk = await next()) yield chunk;
  } catch (error) {
    reader.cancel().catch(() => {}); // the sender may have left
    throw error;
  } finally {
    rate.end();
  }
  keepOpen(ctx, request);
}

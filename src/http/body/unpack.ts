/** Bodies that a client has compressed. */
import { gunzip } from "node:zlib";
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";

type Limits = { maxBytes: number; workspaceId: string };

const SIZE_BYTES = 4; // the end of a gzip file: its unpacked size

/** The body as it was before it was compressed. Its memory is reserved before it is unpacked. */
export async function unpacked(
  ctx: Ctx,
  request: Request,
  packed: Uint8Array,
  { maxBytes, workspaceId }: Limits,
): Promise<Uint8Array> {
  const encoding = request.headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity" || encoding === "") return packed;
  if (encoding !== "gzip" && encoding !== "x-gzip")
    throw new AppError(
      "unsupported_media_type",
      `Content-Encoding ${encoding.slice(0, 40)} is not supported: send the body with gzip, or uncompressed`,
      { headers: { "accept-encoding": "gzip" } },
    );
  if (packed.length === 0) return packed;
  const size = announcedSize(packed);
  if (size > maxBytes) throw new AppError("payload_too_large", `The body is larger than ${maxBytes} bytes`);
  ctx.state.http.bodyMemory.reserve(request, workspaceId, size);
  return await new Promise((resolve, reject) => {
    gunzip(packed, { maxOutputLength: Math.max(size, 1) }, (cause, bytes) => {
      if (cause) reject(new AppError("invalid_request", "The body is not valid gzip", { cause }));
      else resolve(bytes);
    });
  });
}

/** A body that unpacks to more than it announces is refused. */
const announcedSize = (packed: Uint8Array): number =>
  packed.length < SIZE_BYTES
    ? 0
    : Buffer.from(packed.buffer, packed.byteOffset, packed.length).readUInt32LE(packed.length - SIZE_BYTES);

import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";

type Options = {
  maxBytes: number;
  /** The workspace that the bytes are counted for; "" before a caller is known. */
  workspaceId: string;
  /** Called with the declared length before the body is read, else with the size of each chunk; throws to reject the body. */
  grow?: (bytes: number) => void;
};

/** A whole body in memory. Its bytes stay reserved until the request is answered (see limits/body_memory.ts). */
export async function readBytes(
  ctx: Ctx,
  request: Request,
  { maxBytes, workspaceId, grow = () => {} }: Options,
): Promise<Uint8Array> {
  const { bodyMemory } = ctx.state.http;
  const tooLarge = () => new AppError("payload_too_large", `The body is larger than ${maxBytes} bytes`);
  const take = (bytes: number) => {
    bodyMemory.reserve(request, workspaceId, bytes);
    grow(bytes);
  };
  const declared = request.headers.get("content-length");
  if (declared !== null) {
    if (Number(declared) > maxBytes) throw tooLarge();
    take(Number(declared));
    return inTime(ctx, async () => new Uint8Array(await request.arrayBuffer()));
  }
  const reader = request.body?.getReader();
  if (reader === undefined) return new Uint8Array();
  const collect = async () => {
    const chunks: Uint8Array[] = [];
    let size = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return Buffer.concat(chunks);
      size += value.byteLength;
      if (size > maxBytes) throw tooLarge();
      take(value.byteLength);
      chunks.push(value);
    }
  };
  try {
    return await inTime(ctx, collect);
  } catch (error) {
    reader.cancel().catch(() => {}); // the sender may have left
    throw error;
  }
}

/** Without a limit a slow sender would hold its bytes for ever. */
async function inTime<T>(ctx: Ctx, read: () => Promise<T>): Promise<T> {
  const seconds = ctx.config.http.body_timeout_seconds;
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () =>
      late.reject(
        new AppError("upload_incomplete", `The body did not arrive within ${seconds} seconds: send it again`, {
          headers: { connection: "close" },
        }),
      ),
    seconds * 1000,
  );
  const reading = read();
  reading.catch(() => {}); // the race reports it, unless the race is over
  try {
    return await Promise.race([reading, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Images for language models: read from a data: URL or an address, and decoded in the process of the detector. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import type { PixelImage } from "../../lib/vision/pixels.ts";
import { sha256Bytes } from "../../platform/files.ts";
import { decodeFile, fetchFile } from "./intake/files.ts";
import { pixelsOf } from "./worker.ts";

/** Longer sides are reduced to this many pixels. */
const MOST_SIDE = 2048;

/** `at`: a JSON pointer to the part of the request that holds the URL. Errors name it. */
export async function readPicture(
  ctx: Ctx,
  workspaceId: string,
  { url, at, signal }: { url: string; at: string; signal: AbortSignal },
): Promise<PixelImage> {
  const field = at.slice(1).replaceAll("/", ".");
  try {
    const bytes = await bytesOf(ctx, url, signal);
    return await pixelsOf(ctx, { workspaceId, bytes, hash: sha256Bytes(bytes), signal }, MOST_SIDE);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const { code, message, headers } = error;
    throw new AppError(code, `${field}: ${message.replace(/^url: /, "")}`, { param: at, cause: error, headers });
  }
}

async function bytesOf(ctx: Ctx, url: string, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  if (/^data:/i.test(url)) return decodeFile(ctx, url, "url");
  if (/^https?:\/\//i.test(url)) return await fetchFile(ctx, url, signal);
  throw new AppError("schema", "must be a data: URL with base64, or begin with http:// or https://");
}

/** Files as callers give them: as text, or by an address, of which every hop is judged anew. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { DialError } from "../../../platform/network/address.ts";
import type { GuardedResponse } from "../../../platform/network/http_client.ts";
import { decodeBase64 } from "./base64.ts";

const DEADLINE_MS = 10_000;
const MOST_REDIRECTS = 3;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

export function decodeFile(ctx: Pick<Ctx, "config">, text: string): Uint8Array<ArrayBuffer> {
  const bytes = decodeBase64(text, ctx.config.detect.max_image_bytes);
  if (bytes === "too_large") throw tooLarge(ctx);
  if (bytes === "malformed") throw new AppError("invalid_image", "It is not base64: send the file's bytes in base64");
  return bytes;
}

/** All hops share one deadline. */
export async function fetchFile(ctx: Ctx, address: string, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  const begun = performance.now();
  let url = address;
  for (let redirects = 0; ; redirects++) {
    const timeoutMs = Math.floor(DEADLINE_MS - (performance.now() - begun));
    if (timeoutMs < 1) throw failed(`no whole answer within ${DEADLINE_MS / 1000} seconds`);
    const answer = await dial(ctx, url, { timeoutMs, signal });
    if (!REDIRECTS.has(answer.status)) return fileOf(ctx, answer);
    if (redirects === MOST_REDIRECTS) throw failed(`more than ${MOST_REDIRECTS} redirects`);
    url = nextOf(url, answer.headers.get("location"));
  }
}

async function dial(ctx: Ctx, url: string, { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal }) {
  const maxResponseBytes = ctx.config.detect.max_image_bytes;
  try {
    return await ctx.dial(url, {
      timeoutMs,
      signal,
      maxResponseBytes,
      allowHttp: true,
      headers: { accept: "image/*, audio/*" },
    });
  } catch (error) {
    if (!(error instanceof DialError)) throw error;
    if (error.code === "address_refused")
      throw new AppError("url_not_allowed", `url: ${error.message}`, { cause: error, param: "/url" });
    throw failed(
      error.code === "timeout" ? `no whole answer within ${DEADLINE_MS / 1000} seconds` : error.message,
      error,
    );
  }
}

function fileOf(ctx: Ctx, { status, body, truncated }: GuardedResponse): Uint8Array<ArrayBuffer> {
  if (status < 200 || status > 299) throw failed(`it answered ${status}`);
  if (truncated) throw tooLarge(ctx);
  if (body.length === 0) throw failed("it answered with nothing");
  return body as Uint8Array<ArrayBuffer>; // of one buffer of its own
}

const tooLarge = ({ config }: Pick<Ctx, "config">) =>
  new AppError("image_too_large", `The file is larger than ${config.detect.max_image_bytes} bytes`);

function nextOf(from: string, location: string | null): string {
  if (location !== null && URL.canParse(location, from)) return new URL(location, from).href;
  throw failed("it answered with a redirect to nowhere");
}

const failed = (why: string, cause?: unknown) =>
  new AppError("fetch_failed", `url: the file could not be fetched: ${why}`, { cause, param: "/url" });

/** Reads files from base64 text or from a URL. Every redirect of a URL is checked anew. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { DialError } from "../../../platform/network/address.ts";
import type { GuardedResponse } from "../../../platform/network/http_client.ts";

const DEADLINE_MS = 10_000;
const MOST_REDIRECTS = 3;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** `field`: the JSON field that holds the text. */
export function decodeFile(ctx: Pick<Ctx, "config">, text: string, field: string): Uint8Array<ArrayBuffer> {
  const bytes = decodeBase64(text, ctx.config.detect.max_image_bytes);
  if (bytes === "too_large") throw tooLarge(ctx);
  if (bytes === "malformed")
    throw new AppError("invalid_image", `\`${field}\` is not base64. Send the bytes of the file encoded as base64`);
  return bytes;
}

/** All redirects share one deadline. */
export async function fetchFile(ctx: Ctx, address: string, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  const begun = performance.now();
  let url = address;
  for (let redirects = 0; ; redirects++) {
    const timeoutMs = Math.floor(DEADLINE_MS - (performance.now() - begun));
    if (timeoutMs < 1) throw failed(`no complete answer within ${DEADLINE_MS / 1000} seconds`);
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
      error.code === "timeout" ? `no complete answer within ${DEADLINE_MS / 1000} seconds` : error.message,
      error,
    );
  }
}

function fileOf(ctx: Ctx, { status, body, truncated }: GuardedResponse): Uint8Array<ArrayBuffer> {
  if (status < 200 || status > 299) throw failed(`the server answered with status ${status}`);
  if (truncated) throw tooLarge(ctx);
  if (body.length === 0) throw failed("the answer was empty");
  return body as Uint8Array<ArrayBuffer>; // it has a buffer of its own
}

const tooLarge = ({ config }: Pick<Ctx, "config">) =>
  new AppError("image_too_large", `The file is larger than ${config.detect.max_image_bytes} bytes`);

function nextOf(from: string, location: string | null): string {
  if (location !== null && URL.canParse(location, from)) return new URL(location, from).href;
  throw failed("a redirect had no valid location");
}

const failed = (why: string, cause?: unknown) =>
  new AppError("fetch_failed", `url: the file could not be fetched: ${why}`, { cause, param: "/url" });

const DATA_URL = /^data:[^,]{0,200},/i;

/**
 * Reads a file from base64, with or without the beginning of a data: URL, white space and padding. Its size is judged by
 * the length of the text, before anything is decoded.
 */
export function decodeBase64(text: string, maxBytes: number): Uint8Array<ArrayBuffer> | "too_large" | "malformed" {
  const prefix = text.startsWith("data:") || text.startsWith("DATA:") ? DATA_URL.exec(text)?.[0] : "";
  if (prefix === undefined || (prefix !== "" && !/;base64,$/i.test(prefix))) return "malformed";
  let rest = prefix === "" ? text : text.slice(prefix.length);
  if (/\s/.test(rest)) rest = rest.replaceAll(/\s+/g, "");
  const digits = rest.length - (rest.endsWith("==") ? 2 : rest.endsWith("=") ? 1 : 0);
  const size = Math.floor((digits * 3) / 4);
  if (size > maxBytes) return "too_large";
  if (digits === 0 || digits % 4 === 1) return "malformed";
  if (digits !== rest.length && rest.length % 4 !== 0) return "malformed";
  const bytes = Buffer.from(rest, "base64");
  return bytes.length === size ? new Uint8Array(bytes.buffer, bytes.byteOffset, size) : "malformed"; // the decoder skips what it does not know
}

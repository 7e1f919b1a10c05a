/** Long JSON answers, compressed where the client takes that. Streams are never compressed: that would hold them back. */
import { gzip } from "node:zlib";

const LEAST = 65_536; // bytes: below, a compressed answer saves less than its work costs

/** `body`: the whole JSON text. */
export async function jsonResponse(
  request: Request,
  body: string,
  init: { status?: number; headers: Record<string, string> },
) {
  const headers = { "content-type": "application/json", ...init.headers };
  if (body.length < LEAST) return new Response(body, { ...init, headers });
  const vary = { ...headers, vary: "accept-encoding" };
  if (!takesGzip(request)) return new Response(body, { ...init, headers: vary });
  const packed = await new Promise<Uint8Array<ArrayBuffer>>((resolve, reject) => {
    gzip(body, (error, bytes) => (error ? reject(error) : resolve(bytes as Uint8Array<ArrayBuffer>)));
  });
  return new Response(packed, { ...init, headers: { ...vary, "content-encoding": "gzip" } });
}

const takesGzip = ({ headers }: Request): boolean =>
  (headers.get("accept-encoding") ?? "")
    .split(",")
    .some((each) => /^\s*(?:x-)?gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*$).*)?$/i.test(each));

import { AppError } from "../../lib/errors.ts";
import { matchesTag, rangeOf } from "../../lib/range.ts";
import { GIB } from "../../lib/units.ts";
import type { ByteRange, Opened } from "../../platform/storage/storage.ts";
import { stateOf } from "../request_state.ts";

export type StoredFile = {
  /** The file name that a download suggests. */
  name: string;
  contentType: string;
  sizeBytes: number;
  sha256: string;
  updatedAt: number;
  /** Undefined: gone since it was looked up. */
  open: (range: ByteRange) => Promise<Opened | undefined>;
};

/**
 * A file of a user must not act as a part of this server. It is saved and not shown, and a browser that shows it all
 * the same runs it without an origin. Every answer says that its type must not be guessed.
 */
const GUARDS = {
  "content-security-policy": "sandbox; default-src 'none'",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "cache-control": "private, no-cache",
};

/** The kernel sends a file without our reading it. More than this of it is verified while it is sent: see ADR 0040. */
const VERIFIED_FIRST_BYTES = GIB;

/** One file with ranges and conditions, for GET and HEAD. Undefined when it is gone. */
export async function fileResponse(request: Request, file: StoredFile): Promise<Response | undefined> {
  const tag = `"${file.sha256}"`;
  const headers: Record<string, string> = {
    ...GUARDS,
    "content-type": file.contentType,
    "content-disposition": dispositionOf(file.name),
    "accept-ranges": "bytes",
    etag: tag,
    "last-modified": new Date(file.updatedAt).toUTCString(),
  };
  if (matchesTag(request.headers.get("if-none-match"), tag)) return new Response(null, { status: 304, headers });
  const range = isCurrent(request, headers) ? rangeOf(request.headers.get("range"), file.sizeBytes) : "whole";
  if (range === "none")
    throw new AppError("range_not_satisfiable", `The file has ${file.sizeBytes} bytes: the range lies behind them`, {
      param: "range",
      headers: { "content-range": `bytes */${file.sizeBytes}` },
    });
  const { first, last } = range === "whole" ? { first: 0, last: file.sizeBytes - 1 } : range;
  const status = range === "whole" ? 200 : 206;
  if (status === 206) headers["content-range"] = `bytes ${first}-${last}/${file.sizeBytes}`;
  const length = last - first + 1;
  headers["content-length"] = String(length);
  if (request.method === "HEAD") {
    stateOf(request).announcedLength = length; // see http/elysia.ts
    return new Response(null, { status, headers });
  }
  const opened = await file.open({ offset: first, length });
  if (!opened) return undefined;
  // Bun drops the length of a stream, and cuts a whole file to the range that was asked for, whatever If-Range says.
  const isFile = opened.file && length > 0 && (status === 206 || !request.headers.has("range"));
  if (!isFile) return new Response(opened.stream, { status, headers });
  await opened.stream.cancel();
  const path = await opened.file!(VERIFIED_FIRST_BYTES);
  return new Response(Bun.file(path).slice(first, last + 1), { status, headers });
}

/** A range applies to the version that If-Range names. For another version everything is sent. */
function isCurrent(request: Request, { etag, "last-modified": modified }: Record<string, string>): boolean {
  const condition = request.headers.get("if-range")?.trim();
  return condition === undefined || condition === etag || condition === modified;
}

/** RFC 6266: plain letters for old clients, everything for the others. */
function dispositionOf(name: string): string {
  const plain = name.replaceAll(/[^\w.-]/g, "_");
  const encoded = encodeURIComponent(name).replaceAll(
    /['()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

/** Common to object stores and the hub: files under keys, read in ranges, pinned to one version. */
import type { OpenedResponse } from "../../../platform/network/http_client.ts";
import { SourceError } from "../types.ts";

/** `etag` names one version of the content, in the store's own way. */
export type StoredObject = { key: string; etag: string; bytes: number };
/** Up to, but not including, `to`. */
export type Span = { from: number; to: number };

export type OpenObject = (
  object: StoredObject,
  span: Span,
  signal: AbortSignal,
) => Promise<Pick<OpenedResponse, "stream">>;

export type Store = {
  /** The prefix of a key in messages: s3://bucket/ */
  prefix: string;
  /** Returns undefined if the object does not exist, or if these credentials cannot tell. */
  stat: (key: string, signal: AbortSignal) => Promise<StoredObject | undefined>;
  /** Lists in pages. Throws if listing is not allowed. */
  list: (prefix: string, signal: AbortSignal) => AsyncIterable<StoredObject[]>;
  open: OpenObject;
};

/** The store is busy and asks to retry later. */
export class BusyError extends SourceError {
  constructor(message: string) {
    super("unreachable", message);
    this.name = "BusyError";
  }
}

export const isBusy = (status: number) => status === 408 || status === 429 || status >= 500;

type Refused = { status: number; host: string; what: string; said?: string | undefined };

/** Turns an error response into a message. `said` is the store's own code, such as AccessDenied. */
export function refusal({ status, host, what, said }: Refused): SourceError {
  const reason = said === undefined ? `${status}` : `${status} ${said}`;
  if (status === 401 || status === 403)
    return new SourceError(
      "unauthorized",
      `${host} rejects ${what} (${reason}). Check that the credentials are right and may read it`,
      "/credentials",
    );
  if (status === 404) return new SourceError("not_found", `${what} does not exist (${reason})`, "/source_uri");
  if (status === 412 || status === 416) return changed(what);
  if (isBusy(status)) return new BusyError(`${host} answered ${reason} for ${what}. Try again later`);
  return new SourceError("invalid_source", `${host} answered ${reason} for ${what}`, "/source_uri");
}

export const changed = (what: string) =>
  new SourceError("broken", `${what} changed while it was being read. Start the reading again`, "/source_uri");

/** Checks that an answer is the requested range. */
export function checkSpan(response: OpenedResponse, object: StoredObject, span: Span, what: string) {
  const { status, headers } = response;
  if (status === 200 && span.from === 0) return;
  const [, from] = /^bytes (\d+)-\d+\//.exec(headers.get("content-range") ?? "") ?? [];
  if (status === 206 && Number(from) === span.from) return;
  throw new SourceError(
    "broken",
    `${what}: the store did not send the requested bytes ${span.from}-${span.to - 1} of ${object.bytes}`,
  );
}

/** Returns a store's own error code, if the text is one. */
export const wordOf = (text: unknown): string | undefined =>
  typeof text === "string" && /^[A-Za-z][A-Za-z0-9_.-]{1,60}$/.test(text) ? text : undefined;

/** What object stores and the hub have in common: files under keys, read in spans, pinned to one version. */
import type { OpenedResponse } from "../../../platform/network/http_client.ts";
import { SourceError } from "../types.ts";

/** `etag` names one version of its content; whatever the store uses for that. */
export type StoredObject = { key: string; etag: string; bytes: number };
/** Up to, not including, `to`. */
export type Span = { from: number; to: number };

export type OpenObject = (
  object: StoredObject,
  span: Span,
  signal: AbortSignal,
) => Promise<Pick<OpenedResponse, "stream">>;

export type Store = {
  /** With a key after it, how people write the object: s3://bucket/ */
  prefix: string;
  /** Undefined: it is not there, or these credentials may not know. */
  stat: (key: string, signal: AbortSignal) => Promise<StoredObject | undefined>;
  /** In pages. Throws where listing is not allowed. */
  list: (prefix: string, signal: AbortSignal) => AsyncIterable<StoredObject[]>;
  open: OpenObject;
};

/** The store answered, and asks for patience. */
export class BusyError extends SourceError {
  constructor(message: string) {
    super("unreachable", message);
    this.name = "BusyError";
  }
}

export const isBusy = (status: number) => status === 408 || status === 429 || status >= 500;

type Refused = { status: number; host: string; what: string; said?: string | undefined };

/** An answer that is none, in words. `said` is the store's own word for it, such as AccessDenied. */
export function refusal({ status, host, what, said }: Refused): SourceError {
  const reason = said === undefined ? `${status}` : `${status} ${said}`;
  if (status === 401 || status === 403)
    return new SourceError(
      "unauthorized",
      `${host} refuses ${what} (${reason}): check the credentials and that they may read it`,
      "/credentials",
    );
  if (status === 404) return new SourceError("not_found", `${what} does not exist (${reason})`, "/source_uri");
  if (status === 412 || status === 416) return changed(what);
  if (isBusy(status)) return new BusyError(`${host} answered ${reason} for ${what}; try again later`);
  return new SourceError("invalid_source", `${host} answered ${reason} for ${what}`, "/source_uri");
}

export const changed = (what: string) =>
  new SourceError("broken", `${what} changed while it was read: read it again`, "/source_uri");

/** Whether an answer is the span that was asked for. */
export function checkSpan(response: OpenedResponse, object: StoredObject, span: Span, what: string) {
  const { status, headers } = response;
  if (status === 200 && span.from === 0) return;
  const [, from] = /^bytes (\d+)-\d+\//.exec(headers.get("content-range") ?? "") ?? [];
  if (status === 206 && Number(from) === span.from) return;
  throw new SourceError(
    "broken",
    `${what}: asked for bytes ${span.from}-${span.to - 1} of ${object.bytes}, got others`,
  );
}

/** A store's own word for what happened, if it is only that. */
export const wordOf = (text: unknown): string | undefined =>
  typeof text === "string" && /^[A-Za-z][A-Za-z0-9_.-]{1,60}$/.test(text) ? text : undefined;

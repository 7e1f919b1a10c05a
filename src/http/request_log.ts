import type { Log } from "../platform/log.ts";
import { requestIdOf, stateOf } from "./request_state.ts";

/** Path only: a query may hold a signed URL's signature or a setup token. */
export function logRequest(log: Log, request: Request, status: number) {
  if (log.level !== "debug") return;
  log.debug("request", {
    request_id: requestIdOf(request),
    method: request.method,
    path: pathOf(request.url),
    status,
    ms: Math.round((performance.now() - stateOf(request).startedAt) * 100) / 100,
  });
}

/** The path of an absolute URL without building a URL object. */
export function pathOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("//") + 2);
  if (start < 0) return "/";
  const end = url.indexOf("?", start);
  return end < 0 ? url.slice(start) : url.slice(start, end);
}
